"""What the tests of users' headers share: the scaffold's text, and a compiler to watch."""

import shutil
import subprocess
import sys
from pathlib import Path

from leanfast.envs.listing import write_example

# Compiles without optimising, which is four times faster; counts its calls; misbehaves on demand.
SCRIPT = """#!/bin/sh
here={folder}
echo call >> "$here/calls"
if [ -e "$here/die" ]; then kill -9 $$; fi
if [ -e "$here/slow" ]; then sleep 1; fi
{compiler} "$@" -O0 || exit
if [ -e "$here/hang" ]; then touch "$here/hanging"; sleep 60; fi
"""


class WatchedCompiler:
    def __init__(self, folder: Path, compiler: str):
        self.folder = folder
        self.script = folder / "watched-c++"
        self.script.write_text(SCRIPT.format(folder=folder, compiler=shutil.which(compiler)))
        self.script.chmod(0o755)

    @property
    def calls(self) -> int:
        log = self.folder / "calls"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def set(self, behaviour: str, on: bool = True) -> None:
        marker = self.folder / behaviour
        marker.touch() if on else marker.unlink()

    def happened(self, event: str) -> bool:
        return (self.folder / event).exists()


def example(folder: Path, *edits: tuple[str, str], name: str = "my_env.hpp") -> Path:
    """The scaffold with some of its text replaced."""
    header = folder / name
    write_example(header, force=True)
    text = header.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    header.write_text(text)
    return header


def line_of(header: Path, text: str) -> int:
    return next(n for n, line in enumerate(header.read_text().splitlines(), 1) if text in line)


def start_build(header: Path) -> subprocess.Popen:
    """Builds in another process, which prints the environment's digest."""
    code = "import sys; from leanfast.envs.custom import build; print(build(sys.argv[1]).digest)"
    return subprocess.Popen(
        [sys.executable, "-c", code, str(header)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
