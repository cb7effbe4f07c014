import signal
import subprocess
import sys
import types

import pytest

from leanfast import cli
from leanfast.errors import UsageError


def offer(monkeypatch, main):
    """Makes `main` the verb "fake"."""
    module = types.ModuleType("leanfast_fake_verb")
    module.main = main
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.VERBS, "fake", (module.__name__, "a fake"))


def modules_after(*argv):
    code = (
        "import sys; from leanfast.cli import main\n"
        f"try: main({list(argv)})\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("argv", [["--help"], ["doctor"], ["doctor", "--json"]])
def test_help_and_doctor_import_no_heavy_library(argv):
    assert not {"torch", "tensordict", "torchrl", "hydra", "wandb"} & modules_after(*argv)


def test_help_lists_every_verb(capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["--help"])
    assert exit.value.code == 0
    text = capsys.readouterr().out
    assert all(f"\n  {verb} " in text for verb in cli.VERBS)


def test_version_is_the_installed_distributions(capsys):
    from importlib.metadata import version

    with pytest.raises(SystemExit) as exit:
        cli.main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"leanfast {version('leanfast')}\n"


def test_no_verb_is_refused():
    with pytest.raises(SystemExit) as exit:
        cli.main([])
    assert exit.value.code == 2


def test_unknown_verb_names_the_nearest_one_in_one_line(capsys):
    assert cli.main(["docter"]) == 2
    assert capsys.readouterr().err == (
        "leanfast: there is no verb 'docter'; did you mean 'doctor'?\n"
    )


def test_unknown_verb_without_a_near_one_lists_them_all(capsys):
    assert cli.main(["zzz"]) == 2
    error = capsys.readouterr().err
    assert all(verb in error for verb in cli.VERBS)


def test_the_verb_gets_the_rest_of_the_line_untouched(monkeypatch):
    received = []
    offer(monkeypatch, lambda argv: received.extend(argv))
    rest = ["-m", "env=cartpole", "--help", "--", "--version", "+a.b=[1,2]"]
    assert cli.main(["fake", *rest]) == 0
    assert received == rest


def test_the_verbs_return_value_is_the_exit_status(monkeypatch):
    offer(monkeypatch, lambda argv: 3)
    assert cli.main(["fake"]) == 3


def test_usage_error_is_one_line_and_exit_2(monkeypatch, capsys):
    def main(argv):
        raise UsageError("num_envs is 0; it must be at least 1")

    offer(monkeypatch, main)
    assert cli.main(["fake"]) == 2
    assert capsys.readouterr().err == "leanfast: num_envs is 0; it must be at least 1\n"


def test_other_errors_keep_their_traceback(monkeypatch):
    def main(argv):
        raise ValueError("a bug")

    offer(monkeypatch, main)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["fake"])


def test_ctrl_c_exits_130_without_a_traceback(monkeypatch, capsys):
    def main(argv):
        signal.raise_signal(signal.SIGINT)

    offer(monkeypatch, main)
    assert cli.main(["fake"]) == 130
    assert capsys.readouterr().err == ""


def test_a_closed_pipe_ends_the_command_without_a_traceback():
    code = "import sys; from leanfast.cli import main; sys.exit(main(['doctor', '--json']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
