"""The scripts' decisions. All tools are fakes that note their calls: no network, no compiling."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = "bash cat cksum cp dirname basename find flock grep mkdir mktemp rm sh sleep sort tail tee"

# Answers for python, pip, cmake and the rest; `python -m venv` puts copies of itself in place.
FAKE = """#!/usr/bin/env bash
call="$(basename "$0") $*"
echo "$call" >> "$CALLS"
case "$call" in $FAIL) echo "${SAYS:-}"; exit "${CODE:-1}" ;; esac
case "$call" in
    *" -V") echo "Python 3.9.2" ;;
    *" -m venv "*)
        mkdir -p "$3/bin"
        for tool in python cmake ruff clang-format mypy leanfast; do cp "$0" "$3/bin/$tool"; done ;;
    *" -e "*) sleep "${PIP_SECONDS:-0}" ;;
    *pytest*) echo "=== 7 passed in 1s ===" ;;
esac
"""


class Checkout:
    """A copy of what the scripts read, on a machine that has only the fakes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.bin = folder / "bin"
        self.calls_file = folder / "calls"
        self.venv = self.root / ".venv"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        for name in ("pyproject.toml", "constraints.txt", "CMakeLists.txt"):
            (self.root / name).write_text("one")
        for name in ("cpp_envs/engine.hpp", "leanfast/cli.py", "tests/engine.cpp"):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text("one")
        self.bin.mkdir()
        for tool in TOOLS.split():
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.fake("python3")
        self.fake("c++")

    def fake(self, name: str) -> None:
        (self.bin / name).write_text(FAKE)
        (self.bin / name).chmod(0o755)

    def start(self, script, *args, cwd=None, **env):
        env = {"PATH": str(self.bin), "CALLS": str(self.calls_file), "FAIL": "none"} | env
        self.calls_file.write_text("")
        return subprocess.Popen(
            [str(self.root / "scripts" / script), *args],
            cwd=cwd or self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, script, *args, **options):
        process = self.start(script, *args, **options)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def calls(self, word=""):
        return [call for call in self.calls_file.read_text().splitlines() if word in call]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def ready(checkout):
    assert checkout.run("setup").returncode == 0
    return checkout


def refusal(done):
    """The one sentence of a refused setup."""
    assert done.returncode == 1
    assert done.stderr.startswith("leanfast setup: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_first_setup_makes_the_environment_and_installs_with_the_constraints(checkout):
    done = checkout.run("setup")
    assert done.returncode == 0, done.stderr
    assert len(checkout.calls("-m venv")) == 1
    installs = checkout.calls("pip install")
    assert all("-c constraints.txt" in call for call in installs)
    assert "--no-build-isolation" in installs[-1]
    assert "-e .[dev]" in installs[-1]


def test_setup_again_starts_nothing_and_says_nothing(ready):
    done = ready.run("setup")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ready.calls() == []


@pytest.mark.parametrize("name", ["cpp_envs/engine.hpp", "cpp_envs/new.cpp", "CMakeLists.txt"])
def test_an_edit_of_the_engine_rebuilds_only_the_engine(ready, name):
    (ready.root / name).write_text("two")
    assert ready.run("setup").returncode == 0
    assert [call.split()[1] for call in ready.calls("cmake ")] == ["--build", "--install"]
    assert ready.calls("pip") == []
    assert ready.run("setup").stdout == ""


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "leanfast/new.py"])
def test_an_edit_of_the_package_calls_pip_again(ready, name):
    (ready.root / name).write_text("two")
    assert ready.run("setup").returncode == 0
    assert len(ready.calls(" -e ")) == 1
    assert ready.run("setup").stdout == ""


def test_an_edit_of_python_code_needs_no_setup(ready):
    (ready.root / "leanfast/cli.py").write_text("two")
    ready.run("setup")
    assert ready.calls() == []


def test_an_environment_whose_python_is_gone_is_made_again(ready):
    (ready.venv / "bin/python").unlink()
    assert ready.run("setup").returncode == 0
    assert len(ready.calls("-m venv")) == 1


def test_an_interrupted_setup_is_done_again(checkout):
    process = checkout.start("setup", PIP_SECONDS="30")
    while not checkout.calls(" -e "):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    half_installed = checkout.venv / "lib/python3.11/site-packages/torch-2.13.0.dist-info"
    half_installed.mkdir(parents=True)
    assert checkout.run("setup").returncode == 0
    assert len(checkout.calls(" -e ")) == 1
    assert not half_installed.exists()


@pytest.mark.skipif(not shutil.which("flock"), reason="needs flock")
def test_two_setups_at_once_install_once(checkout):
    first = checkout.start("setup", PIP_SECONDS="1")
    while not checkout.calls(" -e "):
        assert first.poll() is None
    calls = checkout.calls_file.with_name("second")
    second = checkout.start("setup", CALLS=str(calls))
    assert first.wait(60) == second.wait(60) == 0
    for process in (first, second):
        process.communicate()
    assert not calls.exists()


@pytest.mark.parametrize("venv", ["below here", "{tmp}/else where"])
def test_the_environments_place_may_be_relative_and_have_spaces(checkout, tmp_path, venv):
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    place = venv.format(tmp=tmp_path)
    done = checkout.run("train", "seed=1", cwd=cwd, LEANFAST_VENV=place)
    assert done.returncode == 0, done.stderr
    assert checkout.calls()[-1] == "leanfast train seed=1"
    assert (cwd / place / "bin/python").exists()
    assert not checkout.venv.exists()


def test_no_python_is_one_sentence_that_says_what_to_install(checkout):
    (checkout.bin / "python3").unlink()
    assert "apt install python3-venv" in refusal(checkout.run("setup"))


def test_an_old_python_is_named_with_its_version(checkout):
    done = checkout.run("setup", FAIL="* import sys*")
    assert "python3 is Python 3.9.2" in refusal(done)


def test_a_newer_python_is_found_behind_an_old_one(checkout):
    checkout.fake("python3.12")
    done = checkout.run("setup", FAIL="python3 *import sys*")
    assert done.returncode == 0, done.stderr
    assert checkout.calls("-m venv")[0].startswith("python3.12")


def test_only_the_python_named_in_the_environment_is_tried(checkout):
    assert "nowhere/python does not run" in refusal(checkout.run("setup", PYTHON="/nowhere/python"))


@pytest.mark.parametrize(
    ("lacks", "package"), [("import venv", "python3-venv"), ("Python.h", "python3-dev")]
)
def test_a_python_without_a_needed_part_names_the_package_that_has_it(checkout, lacks, package):
    assert package in refusal(checkout.run("setup", FAIL=f"*{lacks}*"))


def test_no_compiler_is_one_sentence_that_says_what_to_install(checkout):
    (checkout.bin / "c++").unlink()
    assert "apt install g++" in refusal(checkout.run("setup"))


def test_a_compiler_without_cxx20_is_refused(checkout):
    assert "no C++20 compiler among my-c++" in refusal(checkout.run("setup", CXX="my-c++"))
    assert "no C++20 compiler" in refusal(checkout.run("setup", FAIL="c++ *-std=c++20*"))


def test_a_place_that_cannot_be_written_is_named(checkout, tmp_path):
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "venv")
    assert f"{place} cannot be written" in refusal(checkout.run("setup", LEANFAST_VENV=place))


def test_another_failure_of_pip_shows_its_last_lines_and_the_log(checkout):
    done = checkout.run("setup", FAIL="*pip install*", SAYS="no space left")
    assert done.returncode == 1
    assert "no space left" in done.stderr
    assert str(checkout.venv / "setup.log") in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("pins", ["", (ROOT / "constraints.txt").read_text()], ids=["none", "all"])
def test_an_unreachable_index_is_one_sentence(checkout, pins):
    (checkout.root / "constraints.txt").write_text(pins)
    (checkout.bin / "python3").unlink()
    (checkout.bin / "python3").symlink_to(sys.executable)
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
    done = checkout.run("setup", PIP_CONFIG_FILE=os.devnull, **offline)
    assert "package index cannot be reached" in refusal(done)


def test_test_with_arguments_is_pytest_with_these(ready):
    done = ready.run("test", "tests/test_cli.py", "-k", "a or b")
    assert done.returncode == 0, done.stderr
    assert ready.calls() == ["python -m pytest tests/test_cli.py -k a or b"]


def test_test_runs_lints_types_and_both_kinds_of_tests(ready):
    done = ready.run("test", CI="true")
    assert done.returncode == 0, done.stderr
    words = [" ".join(call.split()[:3]) for call in ready.calls()]
    assert words == [
        "ruff format --check",
        "ruff check",
        "clang-format --dry-run -Werror",
        "mypy",
        "python -m pytest",
        "python -m pytest",
    ]
    assert "7 passed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("fails", ["ruff check*", "clang-format*", "mypy*", "*-m not slow*"])
def test_a_failed_stage_fails_the_run_and_hides_no_other(ready, fails):
    done = ready.run("test", FAIL=fails)
    assert done.returncode == 1
    assert done.stdout.count("FAILED") == 1
    assert len(ready.calls("pytest")) == 2


def test_a_stage_without_tests_is_no_failure(ready):
    assert ready.run("test", FAIL="*-m slow*", CODE="5").returncode == 0
