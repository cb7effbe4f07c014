"""What the benchmarks of training share: a configuration as `leanfast train` reads it, devices, and
one run of `leanfast train` in a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from leanfast import doctor
from leanfast.config import Config, load
from leanfast.errors import RunError, UsageError
from leanfast.paths import conf_dir
from leanfast.train import as_hydra_reads, in_one_sentence

COMMAND = "import sys; from leanfast.cli import main; sys.exit(main(['train', *sys.argv[1:]]))"
CACHE = "TORCHINDUCTOR_CACHE_DIR"


def configured(*overrides: str) -> Config:
    """As `leanfast train` reads it."""
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            values = compose("config", overrides=as_hydra_reads(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(in_one_sentence(error)) from None
    return load(cast(dict[str, Any], OmegaConf.to_container(values, resolve=True)))


def modes_here(device: str) -> dict[str, str | None]:
    """Every execution mode, and why it does not run on `device` here, if it does not."""
    verdicts = doctor.execution_modes(doctor.examine())
    return {mode: verdict["why_not"].get(device) for mode, verdict in verdicts.items()}


def device_of(name: str) -> str:
    cuda = torch.cuda.is_available()
    if name == "cuda" and not cuda:
        raise UsageError("--device is cuda, but torch finds no CUDA device; --device cpu runs here")
    return ("cuda" if cuda else "cpu") if name == "auto" else name


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@contextlib.contextmanager
def empty_compiler_cache() -> Iterator[None]:
    """Whatever is compiled inside is compiled from nothing."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        torch.compiler.reset()
        try:
            yield
        finally:
            os.environ.pop(CACHE)
            if before is not None:
                os.environ[CACHE] = before


def train(overrides: Sequence[str], cache: Path | None = None) -> dict[str, Any]:
    """The summary of one `leanfast train`; `cache` is a folder for what it compiles."""
    environment = os.environ | ({CACHE: str(cache)} if cache else {})
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COMMAND, *overrides, f"hydra.run.dir={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            why = (done.stderr or done.stdout).strip().splitlines() or ["no words"]
            raise RunError(
                f"leanfast train {' '.join(overrides)} ended with exit status {done.returncode}: "
                f"{why[-1].removeprefix('leanfast: ')}"
            )
        return dict(json.loads((Path(folder) / "summary.json").read_text()))
