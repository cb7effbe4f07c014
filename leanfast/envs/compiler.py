"""The system's C++ compiler, put to work on one header."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from leanfast.envs.diagnostics import Author, explain, first_message
from leanfast.errors import HeaderError, UsageError
from leanfast.paths import include_dir

CANDIDATES = ("c++", "g++", "clang++")
ENTRY = "leanfast_environment"
# In these the compilers differ, and a header should mean the same to all of them.
STRICT = ("-Werror=return-type", "-Werror=narrowing")
INSTALL = "install g++ (11 or later) or clang++ (14 or later), or name one in CXX"


@dataclass(frozen=True)
class Compiler:
    command: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Changes with the compiler and its version; found without starting it."""
        binary = Path(self.command[0]).resolve()
        stat = binary.stat()
        return repr((self.command, str(binary), stat.st_size, stat.st_mtime_ns))


def find_compiler() -> Compiler:
    """$CXX, or else the first of c++, g++ and clang++."""
    named = os.environ.get("CXX", "").strip()
    words = shlex.split(named) if named else []
    if words:
        found = shutil.which(words[0])
        if found is None:
            raise UsageError(f"CXX names the compiler {words[0]!r}, which is not there; {INSTALL}")
        return Compiler((found, *words[1:]))
    for name in CANDIDATES:
        if found := shutil.which(name):
            return Compiler((found,))
    raise UsageError(
        f"a C++ header of one's own needs a C++20 compiler, and none was found; {INSTALL} "
        "(the built-in environments need none)"
    )


def flags() -> list[str]:
    """Those that the built-in environments are compiled with."""
    chosen = (include_dir() / "engine" / "flags.txt").read_text().split()
    linked = ["-Wl,--no-undefined"] if sys.platform.startswith("linux") else []
    return [*chosen, *STRICT, "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", *linked]


def compile_header(compiler: Compiler, header: Path, given: Path, folder: Path) -> list[str]:
    """Write folder/library.so, and return the files it was made from."""
    library, dependencies = folder / "library.so", folder / "dependencies.d"
    outputs = ["-o", str(library), "-MMD", "-MF", str(dependencies), "-MT", "library"]
    done = _run(compiler, header, [*flags(), "-fno-diagnostics-show-option", *outputs])
    if done.returncode == 0:
        return read_dependencies(dependencies.read_text())
    if done.returncode < 0:
        raise HeaderError(
            f"{given}: the compiler {compiler.command[0]} was killed by signal {-done.returncode} "
            "(is memory short?)"
        )
    said = explain(done.stderr, Author(header, given, include_dir()))
    raise HeaderError(said or _elsewhere(compiler, given, done.stderr))


def read_dependencies(text: str) -> list[str]:
    """The files of a make rule: `library: a.cpp with\\ blank.hpp \\`."""
    words = re.findall(r"(?:\\.|[^\s\\])+", text.replace("\\\n", " "))
    return [re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words[1:]]


def _run(compiler: Compiler, header: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    include = include_dir()
    command = [
        *compiler.command,
        *options,
        f"-I{include}",
        f'-DLEANFAST_HEADER="{header}"',
        f"-DLEANFAST_ENTRY={ENTRY}",
        str(include / "engine" / "entry.cpp"),
    ]
    environment = {**os.environ, "LC_ALL": "C"}  # the errors are read by a program
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment
        )
    except OSError as error:
        raise UsageError(f"the compiler {command[0]} does not start: {error.strerror}") from None


def _elsewhere(compiler: Compiler, given: Path, text: str) -> str:
    """Nothing in the header is to blame by name: is it the header all the same?"""
    builtin = include_dir() / "envs" / "cartpole.hpp"
    probe = _run(compiler, builtin, ["-std=c++20", "-fsyntax-only"])
    if probe.returncode == 0:
        return f"{given}: error: {first_message(text)}"
    return (
        f"the compiler {compiler.command[0]} cannot compile leanfast's headers, which are C++20 "
        f"({first_message(probe.stderr)}); {INSTALL}"
    )
