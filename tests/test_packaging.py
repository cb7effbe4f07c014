"""The wheel, built from a copy of the sources and used where there is no checkout."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[1]
SITE = Path(numpy.__file__).parents[1]


def python(*args, cwd):
    done = subprocess.run([sys.executable, *args], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("cpp_envs", "leanfast"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    (source / "conf" / "env").mkdir(parents=True)
    (source / "conf" / "env" / "cartpole.yaml").write_text("name: cartpole\n")
    pip = "-m pip wheel --no-deps --no-build-isolation --wheel-dir dist ."
    python(*pip.split(), cwd=source)
    return next((source / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel):
    target = wheel.parent / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def outside(installed, code):
    """Runs `code` where only the wheel offers leanfast: -S keeps the editable install out."""
    paths = f"import sys; sys.path[:0] = {[str(installed), str(SITE)]}\n"
    return python("-S", "-c", paths + code, cwd="/")


pytestmark = pytest.mark.slow


def test_the_wheel_holds_the_package_the_configuration_and_every_header(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    headers = {path.relative_to(ROOT / "cpp_envs") for path in ROOT.glob("cpp_envs/**/*.hpp")}
    assert headers
    assert {f"leanfast/include/{header.as_posix()}" for header in headers} <= names
    # A user's own header is compiled with these two.
    assert {f"leanfast/include/engine/{name}" for name in ("entry.cpp", "flags.txt")} <= names
    assert {"leanfast/conf/env/cartpole.yaml", "leanfast/py.typed", "leanfast/cli.py"} <= names
    assert [name for name in names if name.startswith("leanfast/_native.") and ".so" in name]


def test_the_wheel_holds_nothing_but_the_package_and_its_metadata(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"leanfast", "leanfast-0.1.0.dist-info"}


def test_the_wheel_finds_its_own_configuration_and_headers(installed):
    code = "from leanfast.paths import *; print(conf_dir(), include_dir(), sep='\\n')"
    package = installed / "leanfast"
    expected = [str(package / "conf"), str(package / "include")]
    assert outside(installed, code).splitlines() == expected


def test_the_wheel_runs_outside_the_repository_with_its_own_engine(installed):
    code = (
        "import leanfast._native as native; print(native.__file__, file=sys.stderr)\n"
        f"assert native.__file__.startswith({str(installed)!r}), native.__file__\n"
        "from leanfast.cli import main; main(['doctor', '--json'])"
    )
    engine = json.loads(outside(installed, code))["engine"]
    assert engine["problem"] is None
    assert engine["default"] in engine["instruction_sets"]
