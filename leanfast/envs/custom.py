"""A user's own header: compiled on first use, cached by content.

The cache folder holds two files for each build: NAME.so and, written after it, NAME.json, which
lists what it was made from. NAME begins with a hash of the header and of all that is known before
compiling; the rest is a hash of the files that the compiler then read. Whoever builds holds
HASH.lock, works in a folder HASH.*.tmp and moves the finished files out of it.
The digest of a Definition is of the author's files alone: it is the same on every machine.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import logging
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leanfast import _native
from leanfast.envs.compiler import Compiler, compile_header, find_compiler, flags
from leanfast.envs.registry import Definition
from leanfast.errors import HeaderError, UsageError
from leanfast.paths import include_dir
from leanfast.probes import version_of

ENGINE = "<leanfast>/"  # stands for the include folder in a build's list of files
KEPT_DAYS = 60
ABANDONED_S = 3600
log = logging.getLogger("leanfast")

_loaded: dict[tuple[Path, str], Definition] = {}
_loading = threading.Lock()


def build(path: Path) -> Definition:
    """The environment of a header; the same object as long as neither it nor what it includes
    changes."""
    given = Path(path)
    header = given.expanduser().absolute()
    content = _read_header(header, given)
    compiler = find_compiler()
    with _loading:
        folder = cache_folder()
        key = _key(compiler, content)
        library = _lookup(folder, key, header)
        if library is None:
            with _only_builder(folder, key, given):
                library = _lookup(folder, key, header)
                if library is None:
                    with _work_folder(folder, key) as work:
                        library = _build(folder, work, compiler, header, given)
        if (header, library.stem) not in _loaded:
            _loaded[header, library.stem] = _load(library, header, given)
        return _loaded[header, library.stem]


def cache_folder() -> Path:
    """$LEANFAST_CACHE, or `leanfast` in the user's cache folder, or else one for this process."""
    named = os.environ.get("LEANFAST_CACHE")
    if named:
        folder = Path(named).expanduser().absolute() / "envs"
        if problem := _unwritable(folder):
            raise UsageError(f"LEANFAST_CACHE={named} is no folder to write to: {problem}")
        return folder
    try:
        folder = _user_cache() / "leanfast" / "envs"
        problem = _unwritable(folder)
    except RuntimeError:
        problem = "there is no home folder"
    return folder if problem is None else _process_cache(problem)


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if os.path.isabs(named) else Path.home() / ".cache"


def _unwritable(folder: Path) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"Permission denied: {folder}"


@functools.cache
def _process_cache(problem: str) -> Path:
    warnings.warn(
        f"the cache folder cannot be used ({problem}), so headers are compiled again by every "
        "process; name a folder to write to in LEANFAST_CACHE",
        RuntimeWarning,
        stacklevel=4,
    )
    folder = tempfile.mkdtemp(prefix="leanfast-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _read_header(header: Path, given: Path) -> bytes:
    try:
        content = header.read_bytes()
    except OSError as error:
        raise HeaderError(f"the header {given} cannot be read: {error.strerror}") from None
    if '"' in str(header) or "\n" in str(header):
        raise HeaderError(f"the header's path {str(header)!r} has a quote or a line break in it")
    return content


def _key(compiler: Compiler, content: bytes) -> str:
    """Of everything that is known without starting the compiler."""
    search = [os.environ.get(name, "") for name in ("CPATH", "CPLUS_INCLUDE_PATH")]
    machine = [sys.platform, platform.machine(), str(_native.table_version)]
    known = [version_of("leanfast"), compiler.identity, *flags(), *search, *machine]
    return _hash(repr(known).encode(), content)[:32]


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _hash_file(path: Path) -> str | None:
    try:
        return _hash(path.read_bytes())
    except OSError:
        return None


def _lookup(folder: Path, key: str, header: Path) -> Path | None:
    """A finished library made from what the files contain now."""
    for manifest in folder.glob(f"{key}-*.json"):
        library = manifest.with_suffix(".so")
        try:
            made = json.loads(manifest.read_text())
        except (OSError, ValueError):
            continue
        files = made["files"].items()
        same = all(_hash_file(_find(name, header)) == digest for name, digest in files)
        if same and _hash_file(library) == made["library"]:
            with contextlib.suppress(OSError):
                os.utime(library)
            return library
    return None


def _find(name: str, header: Path) -> Path:
    if name.startswith(ENGINE):
        return include_dir() / name.removeprefix(ENGINE)
    return header.parent / name


def _name(file: str, header: Path) -> str:
    """Relative to the header or the engine where possible: the cache outlives a move of either."""
    roots = [(include_dir(), ENGINE), (header.parent, "")]
    for folder, prefix in sorted(roots, key=lambda root: -len(str(root[0]))):
        if file.startswith(str(folder) + os.sep):
            return prefix + file[len(str(folder)) + 1 :]
    return str(Path(file).absolute())


def _build(folder: Path, work: Path, compiler: Compiler, header: Path, given: Path) -> Path:
    log.info("building %s with %s", given, compiler.command[0])
    for _ in range(3):
        began = time.time()
        key = _key(compiler, _read_header(header, given))
        made = _compile(compiler, header, given, work)
        if not any(_changed_after(began, _find(name, header)) for name in made["files"]):
            break  # else a file was saved meanwhile, and which content was compiled is not known
    library = folder / f"{key}-{_hash(repr(made['files']).encode())[:16]}.so"
    (work / "manifest.json").write_text(json.dumps(made, indent=1))
    os.replace(work / "library.so", library)
    os.replace(work / "manifest.json", library.with_suffix(".json"))
    return library


def _load(library: Path, header: Path, given: Path) -> Definition:
    try:
        native = _native.load_environment(str(library), header.stem)
    except RuntimeError as error:
        raise HeaderError(f"{given}: the compiled library does not load: {error}") from None
    digest = json.loads(library.with_suffix(".json").read_text())["digest"]
    return Definition(native, str(header), digest)


def _compile(compiler: Compiler, header: Path, given: Path, work: Path) -> dict[str, Any]:
    read = compile_header(compiler, header, given, work)
    names = sorted({_name(file, header) for file in read})
    files = {name: _hash_file(_find(name, header)) for name in names}
    own = [f"{name} {digest}" for name, digest in files.items() if not name.startswith(ENGINE)]
    return {
        "header": str(header),
        "compiler": compiler.command,
        "digest": _hash("\n".join(own).encode()),
        "library": _hash_file(work / "library.so"),
        "files": files,
    }


def _changed_after(moment: float, path: Path) -> bool:
    try:
        return path.stat().st_mtime > moment
    except OSError:
        return True


@contextlib.contextmanager
def _work_folder(folder: Path, key: str) -> Iterator[Path]:
    _clean(folder, key)
    work = Path(tempfile.mkdtemp(prefix=f"{key}.", suffix=".tmp", dir=folder))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _clean(folder: Path, key: str) -> None:
    """What killed builds left behind, and libraries that were not used for long."""
    now = time.time()
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            age = now - entry.stat().st_mtime
            if entry.name.endswith(".tmp"):
                if entry.name.startswith(key) or age > ABANDONED_S:
                    shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name.endswith(".so") and age > KEPT_DAYS * 86400:
                Path(entry.path).with_suffix(".json").unlink(missing_ok=True)
                os.unlink(entry.path)


@contextlib.contextmanager
def _only_builder(folder: Path, key: str, given: Path) -> Iterator[None]:
    """Holds off other processes that want the same build; a killed one's hold ends with it."""
    import fcntl

    with open(folder / f"{key}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.warning("waiting for another process that is building %s", given)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: both build, and either result will do
            pass
        yield
