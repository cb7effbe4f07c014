"""What a result was measured on: without it a figure says nothing."""

import importlib.metadata
import platform
import time
from pathlib import Path
from typing import Any

from leanfast import _native
from leanfast.cores import usable_cores


def describe(packages: tuple[str, ...] = ()) -> dict[str, Any]:
    versions = {"python": platform.python_version()}
    for name in ("leanfast", "torch", "torchrl", "tensordict", "gymnasium", "numpy", *packages):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "instruction_set": _native.default_instruction_set(),
        "versions": versions,
    }


def heading(machine: dict[str, Any], conditions: str) -> list[str]:
    """The lines above a table: the machine with what was measured on it how, and the versions."""
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
    return [f"{machine['processor']}, {machine['cores']} cores{conditions}", versions]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
