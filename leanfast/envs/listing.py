"""`leanfast envs`: what there is. `leanfast envs new FILE` starts a header of one's own."""

import argparse
import json
import math
import re
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leanfast.envs.registry import Definition, builtin, find
from leanfast.errors import UsageError

EXAMPLES = """examples:
  leanfast envs                        every built-in environment, one line each
  leanfast envs cartpole               one in detail; so does the path of a header: my_env.hpp
  leanfast envs new my_env.hpp         write a working example to change into your own"""
HEADINGS = ("name", "observation", "action", "agents", "steps", "parameters")
BESIDE = 40  # columns that parameters need, so as not to go below the rest
# What the example's own code means by these names must stay visible to it.
TAKEN = {"Actions", "Box", "Outcome", "Params", "Real", "Rng", "Spec", "State"}


def main(argv: list[str]) -> int:
    if argv[:1] == ["new"]:
        return _new(argv[1:])
    parser = argparse.ArgumentParser(
        prog="leanfast envs",
        usage="leanfast envs [NAME] [--json] | leanfast envs new FILE [--force]",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="an environment, or a header's path"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    if arguments.name is None:
        every = [describe(definition) for definition in builtin().values()]
        print(_as_json({e.pop("key"): e for e in every}) if arguments.json else table(every))
        return 0
    try:
        one = describe(find(arguments.name))
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None
    print(_as_json(one) if arguments.json else details(one))
    return 0


def describe(definition: Definition) -> dict[str, Any]:
    """An environment as its parameters' defaults make it."""
    described = {"key": definition.key, "source": definition.source, **definition.spec()}
    return described | {"params": definition.defaults}


def table(every: Iterable[dict[str, Any]]) -> str:
    rows = [HEADINGS, *(_row(one) for one in every)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    columns, indent = shutil.get_terminal_size((120, 24)).columns, sum(widths) + 2 * len(widths)
    beside = columns - indent >= BESIDE
    if not beside:
        indent = 4
    lines = []
    for *cells, params in rows:
        fixed = "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
        wrapped = textwrap.wrap(params, columns - indent, break_long_words=False) or ["none"]
        below = [" " * indent + part for part in wrapped]
        lines += [fixed + wrapped[0], *below[1:]] if beside else [fixed.rstrip(), *below]
    return "\n".join(lines)


def details(one: dict[str, Any]) -> str:
    limit = one["max_episode_steps"]
    lines = [
        f"{one['key']} ({one['name']}), {one['source']}",
        "",
        f"observation  {_shape(one['observation'])}{_each(one)}",
        *_bounds(one["observation"]),
        f"action       {_action(one['action'])}{_each(one)}",
        *_action_bounds(one["action"]),
        f"agents       {one['agents']}",
        f"time limit   {f'{limit} steps' if limit else 'none'}",
        "parameters" if one["params"] else "parameters   none",
    ]
    width = max(map(len, one["params"]), default=0)
    lines += [f"  {name:<{width}}  {_number(value)}" for name, value in one["params"].items()]
    return "\n".join(lines)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    params = " ".join(f"{name}={_number(value)}" for name, value in one["params"].items())
    observation, action = _shape(one["observation"]), _action(one["action"])
    limit = str(one["max_episode_steps"] or "no limit")
    return one["key"], observation, action, str(one["agents"]), limit, params


def _shape(box: dict[str, Any]) -> str:
    return f"{box['dtype']} [{', '.join(map(str, box['shape']))}]"


def _action(action: int | dict[str, Any]) -> str:
    if isinstance(action, int):
        return f"0 to {action - 1}"
    each = f", {_range(action['low'][0], action['high'][0])}" if len(action["low"]) == 1 else ""
    return f"{_shape(action)}{each}"


def _action_bounds(action: int | dict[str, Any]) -> list[str]:
    return _bounds(action) if isinstance(action, dict) and len(action["low"]) > 1 else []


def _each(one: dict[str, Any]) -> str:
    return " for each agent" if one["agents"] > 1 else ""


def _bounds(box: dict[str, Any]) -> list[str]:
    pairs = list(zip(box["low"], box["high"], strict=True))
    if len(pairs) == 1:
        return [f"  each       {_range(*pairs[0])}"]
    return [f"  {index:<9}  {_range(low, high)}" for index, (low, high) in enumerate(pairs)]


def _range(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return "unbounded"
    return f"{_number(low)} to {_number(high)}"


def _number(value: float | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}"


def _as_json(value: dict[str, Any]) -> str:
    """An infinite bound becomes null: JSON has no infinity."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _new(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="leanfast envs new", description="Write a working example to change into your own."
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the header to write: my_env.hpp")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    arguments = parser.parse_args(argv)
    file: Path = arguments.file
    struct = write_example(file, arguments.force)
    print(
        f"{file} holds {struct}, a working example to change into your own.\n\n"
        f"see it    leanfast envs {file}\n"
        f'use it    leanfast.make("{file}", num_envs=768)\n'
        f"train it  leanfast train env=custom env.source={file}"
    )
    return 0


def write_example(file: Path, force: bool = False) -> str:
    """The struct's name, made from the file's."""
    struct = struct_name(file)
    example = Path(__file__).with_name("template.hpp").read_text()
    text = example.replace("my_env.hpp", file.name).replace("MyEnv", struct)
    if not file.parent.is_dir():
        raise UsageError(f"the folder {file.parent} for {file.name} does not exist")
    try:
        with open(file, "w" if force else "x") as new:
            new.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists already; --force overwrites it") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    return struct


def struct_name(file: Path) -> str:
    """my_env.hpp: MyEnv"""
    if file.suffix != ".hpp":
        raise UsageError(f"a header's name must end in .hpp, like my_env.hpp, not {file.name!r}")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", file.stem):
        raise UsageError(
            "a header's name must be letters, digits and _ and begin with a letter, like "
            f"my_env.hpp, for it names a C++ struct, not {file.name!r}"
        )
    if file.name == "leanfast.hpp":
        raise UsageError("a header named leanfast.hpp would hide the engine's; choose another name")
    name = "".join(word[0].upper() + word[1:] for word in file.stem.split("_") if word)
    return f"{name}Env" if name in TAKEN else name
