"""The `leanfast` command: finds the verb and hands it the rest of the line.

Nothing heavy is imported here: each verb's module is loaded only when it is asked for.
"""

import argparse
import difflib
import importlib
import os
import sys
from importlib.metadata import version

from leanfast.errors import RunError, UsageError

VERBS = {
    "train": ("leanfast.train", "train a policy, e.g. `leanfast train env=cartpole seed=1`"),
    "bench": ("leanfast.bench.cli", "measure the engine and what it is compared with"),
    "envs": ("leanfast.envs.listing", "list the environments; `envs new FILE` starts your own"),
    "doctor": ("leanfast.doctor", "versions, devices, and what this machine can run"),
}


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except UsageError as error:
        print(f"leanfast: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        print(f"leanfast: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Python flushes stdout once more at exit, which would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(argv: list[str]) -> int:
    _parser().parse_args(argv[:1])
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UsageError(f"there is no verb {verb!r}; {_suggestion(verb)}")
    module = importlib.import_module(VERBS[verb][0])
    return int(module.main(rest) or 0)


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, (_, text) in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="leanfast",
        usage="leanfast VERB [ARGUMENTS]",
        epilog=f"verbs (`leanfast VERB --help` says more):\n{verbs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"leanfast {version('leanfast')}")
    parser.add_argument("verb", metavar="VERB", help=argparse.SUPPRESS)
    return parser


def _suggestion(verb: str) -> str:
    near = difflib.get_close_matches(verb, VERBS, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
