import json
import sys

import pytest

from leanfast import doctor, probes
from leanfast.config import PIPELINES

GPU = {"name": "A GPU", "capability": "9.0", "memory_gib": 80.0}


def machine(**changes):
    """What `examine` finds on a machine that has everything, with `changes`."""
    return {
        "versions": {"torch": "2.13.0", "triton": "3.7.0"},
        "engine": {"instruction_sets": ["baseline"], "default": "baseline", "problem": None},
        "compiler": {"command": "c++", "version": "c++ 12"},
        "python_headers": True,
        "cuda": {"torch": "13.0", "driver": {"version": "13.0", "devices": [GPU], "problem": None}},
        "nvrtc": "13.0",
        "cuda_core": "1.0",
    } | changes


NO_DRIVER = {"version": None, "devices": [], "problem": "no NVIDIA driver was found"}
NO_GPU = {"cuda": {"torch": None, "driver": NO_DRIVER}}


def devices(verdicts):
    return {name: verdict["devices"] for name, verdict in verdicts.items()}


def test_a_machine_with_everything_runs_everything():
    assert devices(doctor.execution_modes(machine())) == {
        "eager": ["cpu", "cuda"],
        "compile": ["cpu", "cuda"],
        "cudagraph": ["cuda"],
        "combined": ["cuda"],
    }
    assert devices(doctor.pipelines(machine())) == {
        "serial": ["cpu", "cuda"],
        "double_buffered": ["cpu", "cuda"],
        "vectorized": ["cpu", "cuda"],
        "resident": ["cuda"],
    }


def test_without_a_gpu_the_cuda_modes_say_that_the_driver_is_missing():
    modes = doctor.execution_modes(machine(**NO_GPU))
    assert [mode for mode, verdict in modes.items() if verdict["runs"]] == ["eager", "compile"]
    for mode in ("cudagraph", "combined"):
        assert "no NVIDIA driver was found" in doctor._say(modes[mode])
    assert not doctor.pipelines(machine(**NO_GPU))["resident"]["runs"]


def test_a_torch_without_cuda_is_the_reason_where_the_driver_is_fine():
    found = machine(cuda=machine()["cuda"] | {"torch": None})
    assert "built without CUDA" in doctor._say(doctor.execution_modes(found)["cudagraph"])


@pytest.mark.parametrize(
    ("change", "word"),
    [({"compiler": None}, "C++ compiler"), ({"python_headers": False}, "C headers")],
)
def test_what_compile_lacks_stops_compile_and_combined_alone(change, word):
    modes = doctor.execution_modes(machine(**change))
    assert [mode for mode, verdict in modes.items() if verdict["runs"]] == ["eager", "cudagraph"]
    assert word in doctor._say(modes["compile"])


def test_a_missing_triton_stops_compile_on_cuda_only():
    modes = doctor.execution_modes(machine(versions={"torch": "2.13.0", "triton": None}))
    assert modes["compile"]["devices"] == ["cpu"]
    assert "triton" in modes["compile"]["why_not"]["cuda"]
    assert not modes["combined"]["runs"]


@pytest.mark.parametrize(("key", "word"), [("nvrtc", "NVRTC"), ("cuda_core", "cuda-core")])
def test_resident_names_the_missing_kernel_compiler(key, word):
    verdict = doctor.pipelines(machine(**{key: None}))["resident"]
    assert not verdict["runs"]
    assert word in doctor._say(verdict)


def test_a_missing_torch_stops_everything():
    found = machine(versions={"torch": None, "triton": None})
    verdicts = doctor.execution_modes(found) | doctor.pipelines(found)
    assert not any(verdict["runs"] for verdict in verdicts.values())


def test_a_missing_engine_is_said_with_its_fix_and_fails_nothing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "leanfast._native", None)
    assert doctor.main([]) == 0
    text = capsys.readouterr().out
    assert "the native engine does not load" in text
    assert "scripts/setup" in text


def test_nothing_found_at_all_still_prints_and_exits_0(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "leanfast._native", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(probes, "version_of", lambda name: None)
    monkeypatch.setattr(probes, "_library", lambda name: None)
    monkeypatch.setattr(probes.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert doctor.main([]) == 0
    text = capsys.readouterr().out
    assert "torch missing" in text
    assert "\ncompiler          missing\n" in text
    assert "\nNVML              missing\n" in text


def test_json_is_one_object_with_every_mode_and_pipeline(capsys):
    assert doctor.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["execution"]) == ["eager", "compile", "cudagraph", "combined"]
    assert list(found["pipelines"]) == ["serial", "double_buffered", "vectorized", "resident"]
    assert found["cores"] >= 1


def test_the_doctor_agrees_with_torch_about_cuda():
    import torch

    assert probes.torch_cuda() == torch.version.cuda
    runs_cuda = doctor.examine()["execution"]["eager"]["devices"] == ["cpu", "cuda"]
    assert runs_cuda == torch.cuda.is_available()


def test_the_engines_instruction_sets_are_the_extensions_own():
    from leanfast import _native

    engine = doctor.examine()["engine"]
    assert engine["instruction_sets"] == list(_native.instruction_sets())
    assert engine["default"] in engine["instruction_sets"]


def test_a_compiler_too_old_for_cxx20_is_no_compiler(tmp_path, monkeypatch):
    old = tmp_path / "old-c++"
    old.write_text("#!/bin/sh\necho 'unrecognized option -std=c++20' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("CXX", str(old))
    assert probes.cxx_compiler() is None


def test_the_doctor_tells_the_machine_from_what_this_version_trains_with(capsys):
    assert doctor.main([]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert all(name in last for name in PIPELINES if name != "auto")
