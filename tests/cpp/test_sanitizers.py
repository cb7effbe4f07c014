"""The stress program under the sanitizers: no race, no stray access, nothing undefined, no hang."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parent.parent / "cpp_envs"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def compiler() -> str:
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++")):
        if found := shutil.which(name):
            return found
    pytest.skip("no C++ compiler")


def compile_or_fail(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def skip_without_runtime(compiler: str, sanitizers: str, folder: Path) -> None:
    trivial = folder / "trivial.cpp"
    trivial.write_text("int main() {}\n")
    command = [compiler, f"-fsanitize={sanitizers}", str(trivial), "-o", str(folder / "trivial")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    missing = r"cannot find.*(asan|tsan|ubsan|clang_rt)|unsupported (option|argument).*fsanitize"
    if done.returncode != 0 and re.search(missing, done.stderr):
        pytest.skip(f"this compiler has no runtime for -fsanitize={sanitizers}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_the_engine_survives_its_stress_program(compiler, sanitizers, tmp_path):
    skip_without_runtime(compiler, sanitizers, tmp_path)
    flags = [
        *("-std=c++20", "-O1", "-g", "-pthread", f"-I{SOURCES}", f"-I{HERE}"),
        *(f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"),
        *((SOURCES / "engine/flags.txt").read_text().replace("-O3", "").split()),
    ]
    headers = {"cartpole": "envs/cartpole.hpp", "throwing": "throwing.hpp", "slow": "slow.hpp"}
    entry = str(SOURCES / "engine/entry.cpp")
    units = {
        name: [f'-DLEANFAST_HEADER="{header}"', f"-DLEANFAST_ENTRY=table_{name}", entry]
        for name, header in headers.items()
    }
    units |= {"engine": [str(SOURCES / "engine/engine.cpp")], "main": [str(HERE / "stress.cpp")]}
    objects = [str(tmp_path / f"{name}.o") for name in units]
    commands = [
        [compiler, *flags, *unit, "-c", "-o", object_file]
        for unit, object_file in zip(units.values(), objects, strict=True)
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(compile_or_fail, commands))
    program = str(tmp_path / "stress")
    compile_or_fail([compiler, *flags, *objects, "-o", program])

    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-6000:]
