"""`leanfast train`: a Hydra application. Overrides, -m sweeps and launchers are Hydra's own."""

import contextlib
import dataclasses
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from leanfast.config import Config, load
from leanfast.errors import RunError, UsageError
from leanfast.paths import conf_dir


def main(argv: list[str]) -> int:
    refused: list[UsageError | RunError] = []

    def task(values: DictConfig) -> float | None:
        began = time.perf_counter()  # checking a configuration may build an environment
        try:
            config = load(cast(dict[str, Any], OmegaConf.to_container(values, resolve=True)))
            return train(config, Path(HydraConfig.get().runtime.output_dir), began)
        except (UsageError, RunError) as error:
            # A sweep wants to know which of its jobs failed; a single run's user only why.
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                raise
            refused.append(error)
            return None

    decorate = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
    try:
        with _command_line(argv):
            decorate(task)()
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(in_one_sentence(error)) from None
    if refused:
        raise refused[0]
    return 0


def train(config: Config, folder: Path, began: float) -> float:
    """Trains into `folder` and returns the mean return of the final evaluation."""
    folder.mkdir(parents=True, exist_ok=True)
    resolved = OmegaConf.to_yaml(OmegaConf.create(dataclasses.asdict(config)))
    (folder / "config.yaml").write_text(resolved)
    # Only now: a configuration that is refused should not wait for torch.
    from leanfast.run import run

    return run(config, folder, began)


@contextlib.contextmanager
def _command_line(argv: list[str]) -> Iterator[None]:
    """What Hydra reads: the arguments, and that it is to raise errors instead of printing them."""
    arguments, environment = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = ["leanfast train", *as_hydra_reads(argv)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = arguments
        if environment is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = environment


def as_hydra_reads(argv: Sequence[str]) -> list[str]:
    """The arguments, with an environment's parameters, which only its header knows, as new ones."""
    return [re.sub(r"^(env\.params\.)", r"++\1", arg) for arg in argv]


def in_one_sentence(error: Exception) -> str:
    """Hydra's words, which fill several lines, as one."""
    text = str(error)
    if choice := re.search(r"Could not find '([\w/]+)/([^']*)'", text):
        group, name = choice.groups()
        known = re.findall(r"^\t([\w/-]+)$", text, re.MULTILINE)
        return f"there is no {group}={name}; there are {', '.join(known)}"
    if key := re.search(r"Could not override '([^']*)'", text):
        return f"there is no {key[1]}; `leanfast train --cfg job` shows all there is"
    return " ".join(line.strip() for line in text.splitlines() if line.strip())
