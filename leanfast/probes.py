"""What this machine offers, found out in milliseconds: nothing here imports torch."""

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

CHECK_FLAGS = ("-std=c++20", "-x", "c++", "-fsyntax-only", "-")
CHECK_SOURCE = "#include <concepts>\ntemplate <std::integral T> T same(T x) { return x; }\n"


def version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def cxx_compiler() -> dict[str, str] | None:
    """The C++20 compiler to use, as `command` and `version`: $CXX, or else the first that works."""
    named = os.environ.get("CXX")
    for command in [named] if named else ["c++", "g++", "clang++"]:
        compiles = _run([*shlex.split(command), *CHECK_FLAGS], CHECK_SOURCE)
        if compiles is not None:
            lines = (_run([*shlex.split(command), "--version"]) or "").splitlines()
            return {"command": command, "version": lines[0] if lines else "unknown"}
    return None


def python_headers() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").is_file()


def torch_cuda() -> str | None:
    """The CUDA version torch was built with, read from its version file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        text = Path(spec.submodule_search_locations[0], "version.py").read_text()
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=]*= *['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found[1] if found else None


def cuda_driver() -> dict[str, Any]:
    """The driver's CUDA version and its devices, or `problem`, a sentence."""
    driver = _library("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    if driver is None:
        return {"version": None, "devices": [], "problem": "no NVIDIA driver was found"}
    status = driver.cuInit(0)
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if status == 0:
        status = driver.cuDeviceGetCount(ctypes.byref(count))
    devices = [_cuda_device(driver, index) for index in range(count.value)]
    problem = None if devices else f"the NVIDIA driver offers no device (CUDA error {status})"
    return {
        "version": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "devices": devices,
        "problem": problem,
    }


def nvml() -> str | None:
    """The driver's release, as NVML gives it."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    except Exception:
        # A driver and a library that differ raise more than NVMLError, and all of it means "no".
        return None


def nvrtc() -> str | None:
    """The version of CUDA's run-time compiler: the `cuda` extra's, torch's or the system's."""
    folders = [Path(folder) / "nvidia" for folder in sys.path if folder]
    packaged = [str(lib) for folder in folders for lib in folder.glob("*/lib/libnvrtc.so.*")]
    for name in [*sorted(packaged, reverse=True), *(f"libnvrtc.so.{n}" for n in (13, 12))]:
        library = _library(name)
        major, minor = ctypes.c_int(), ctypes.c_int()
        if library and library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
            return f"{major.value}.{minor.value}"
    return None


def _cuda_device(driver: Any, index: int) -> dict[str, Any]:
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # compute capability
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return {
        "name": name.value.decode(errors="replace"),
        "capability": f"{major.value}.{minor.value}",
        "memory_gib": round(memory.value / 2**30, 1),
    }


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _run(command: list[str], text: str = "") -> str | None:
    """The command's output, or None if it is missing or fails."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
