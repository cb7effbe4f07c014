"""`leanfast doctor`: versions, devices, and what this machine can and cannot run."""

import argparse
import importlib
import importlib.util
import json
import platform
from collections.abc import Mapping
from typing import Any

from leanfast import probes
from leanfast.config import PIPELINES
from leanfast.cores import usable_cores

PACKAGES = ("torch", "tensordict", "torchrl", "gymnasium", "numpy", "hydra-core", "wandb")
BUILD_IT = "build it with scripts/setup or `pip install .`"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="leanfast doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args(argv).json
    found = examine()
    print(json.dumps(found, indent=2) if as_json else describe(found))
    return 0


def examine() -> dict[str, Any]:
    """Everything the doctor knows, with None for what is missing."""
    found: dict[str, Any] = {
        "versions": {
            "python": platform.python_version(),
            "leanfast": probes.version_of("leanfast"),
            **{name: probes.version_of(name) for name in PACKAGES},
            "triton": probes.version_of("triton"),
        },
        "platform": platform.platform(),
        "cores": usable_cores(),
        "engine": _engine(),
        "compiler": probes.cxx_compiler(),
        "python_headers": probes.python_headers(),
        "cuda": {"torch": probes.torch_cuda(), "driver": probes.cuda_driver()},
        "nvrtc": probes.nvrtc(),
        "nvml": probes.nvml(),
        "cuda_core": probes.version_of("cuda-core"),
    }
    return found | {"execution": execution_modes(found), "pipelines": pipelines(found)}


def execution_modes(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Per mode, the devices it runs on here and, for the others, why not."""
    torch, cuda = _torch_problem(found), _cuda_problem(found)
    compiler, triton = _compiler_problem(found), _triton_problem(found)
    graphs = f"CUDA graphs need a CUDA device, and {cuda}" if cuda else None
    no_graphs = "CUDA graphs exist only on CUDA devices"
    return {
        "eager": _verdict(torch, torch or cuda),
        "compile": _verdict(torch or compiler, torch or cuda or compiler or triton),
        "cudagraph": _verdict(torch or no_graphs, torch or graphs),
        "combined": _verdict(torch or no_graphs, torch or graphs or compiler or triton),
    }


def pipelines(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Per pipeline, the learner's devices it runs with here and, for the others, why not."""
    torch, cuda, engine = _torch_problem(found), _cuda_problem(found), found["engine"]["problem"]
    kernels = None if found["nvrtc"] and found["cuda_core"] else _kernels_problem(found)
    resident = f"it lives on a CUDA device, and {cuda}" if cuda else None
    return {
        "serial": _verdict(torch, torch or cuda),
        "double_buffered": _verdict(torch or engine, torch or cuda or engine),
        "vectorized": _verdict(torch or engine, torch or cuda or engine),
        "resident": _verdict("it lives on a CUDA device", torch or resident or kernels),
    }


def describe(found: Mapping[str, Any]) -> str:
    engine, compiler, cuda = found["engine"], found["compiler"], found["cuda"]
    driver = cuda["driver"]
    versions = [f"{name} {version or 'missing'}" for name, version in found["versions"].items()]
    instructions = ", ".join(
        f"{name} (used)" if name == engine["default"] else name
        for name in engine["instruction_sets"]
    )
    devices = [
        f"{device['name']}, compute capability {device['capability']}, {device['memory_gib']} GiB"
        for device in driver["devices"]
    ]
    built = f"for CUDA {cuda['torch']}" if cuda["torch"] else "without CUDA"
    offered = f"driver for CUDA {driver['version']}" if driver["version"] else "no driver"
    lines = [
        ("versions", "\n".join(", ".join(versions[i : i + 4]) for i in range(0, len(versions), 4))),
        ("platform", found["platform"]),
        ("cores", f"{found['cores']} usable"),
        ("engine", engine["problem"] or f"built; instruction sets: {instructions}"),
        ("compiler", f"{compiler['command']}: {compiler['version']}" if compiler else "missing"),
        ("CUDA", f"torch built {built}, {offered}"),
        ("devices", "\n".join(devices) or driver["problem"]),
        ("NVRTC", found["nvrtc"] or "missing"),
        ("NVML", f"driver {found['nvml']}" if found["nvml"] else "missing"),
    ]
    table = [_line(name, text) for name, text in lines]
    for title in ("execution", "pipelines"):
        table += ["", title, *(_line(f"  {name}", _say(v)) for name, v in found[title].items())]
    built = " or ".join(name for name in PIPELINES if name != "auto")
    table += ["", f"That is the machine; this version trains with {built}, in any of these modes."]
    return "\n".join(table)


def _engine() -> dict[str, Any]:
    try:
        native = importlib.import_module("leanfast._native")
        sets, default = native.instruction_sets(), native.default_instruction_set()
    except (ImportError, AttributeError) as error:
        problem = f"the native engine does not load ({error}); {BUILD_IT}"
        return {"instruction_sets": [], "default": None, "problem": problem}
    return {"instruction_sets": list(sets), "default": default, "problem": None}


def _torch_problem(found: Mapping[str, Any]) -> str | None:
    return None if found["versions"]["torch"] else "torch is not installed"


def _cuda_problem(found: Mapping[str, Any]) -> str | None:
    driver = found["cuda"]["driver"]
    if driver["problem"]:
        return str(driver["problem"])
    if not found["cuda"]["torch"]:
        return f"torch {found['versions']['torch']} is built without CUDA; install one with it"
    return None


def _compiler_problem(found: Mapping[str, Any]) -> str | None:
    if not found["compiler"]:
        return (
            "torch.compile needs a C++ compiler and none was found; install g++ or name it in CXX"
        )
    if not found["python_headers"]:
        return "torch.compile needs Python's C headers; install python3-dev"
    return None


def _triton_problem(found: Mapping[str, Any]) -> str | None:
    return None if found["versions"]["triton"] else "torch.compile needs triton on CUDA devices"


def _kernels_problem(found: Mapping[str, Any]) -> str:
    missing = [n for n, at in (("NVRTC", "nvrtc"), ("cuda-core", "cuda_core")) if not found[at]]
    return f"its kernels need {' and '.join(missing)}; pip install 'leanfast[cuda]'"


def _verdict(cpu: str | None, cuda: str | None) -> dict[str, Any]:
    """From each device's problem: where it runs, and why not elsewhere."""
    problems = {"cpu": cpu, "cuda": cuda}
    devices = [device for device, problem in problems.items() if problem is None]
    return {
        "runs": bool(devices),
        "devices": devices,
        "why_not": {device: problem for device, problem in problems.items() if problem},
    }


def _say(verdict: Mapping[str, Any]) -> str:
    if not verdict["runs"]:
        # The CUDA device's reason says what to do about it; the CPU's only that it cannot.
        return f"no: {verdict['why_not']['cuda']}"
    reasons = [f"not on {device}: {why}" for device, why in verdict["why_not"].items()]
    return "; ".join([f"yes, on {' and '.join(verdict['devices'])}", *reasons])


def _line(name: str, text: str) -> str:
    return f"{name:<18}" + text.replace("\n", "\n" + " " * 18)
