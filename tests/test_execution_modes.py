"""Which mode runs where which is asked for."""

import pytest

from leanfast import doctor
from leanfast.errors import UsageError
from leanfast.execution import choose

EVERYTHING = ["cpu", "cuda"]


def verdicts(**devices):
    """What the doctor says where a mode runs on these devices."""
    return {
        mode: {
            "devices": where,
            "why_not": {x: f"no {mode} on {x}" for x in EVERYTHING if x not in where},
        }
        for mode, where in devices.items()
    }


GPU = verdicts(eager=EVERYTHING, compile=EVERYTHING, cudagraph=["cuda"], combined=["cuda"])
CPU = verdicts(eager=["cpu"], compile=["cpu"], cudagraph=[], combined=[])
BARE = verdicts(eager=["cpu"], compile=[], cudagraph=[], combined=[])
BARE_GPU = verdicts(eager=EVERYTHING, compile=["cpu"], cudagraph=["cuda"], combined=[])


@pytest.mark.parametrize(
    ("machine", "mode", "device", "fallback", "effective", "why"),
    [
        (GPU, "auto", "cuda", False, "combined", "the fastest that this machine runs"),
        (GPU, "auto", "cpu", False, "compile", "the fastest that this machine runs"),
        (CPU, "auto", "cpu", False, "compile", "the fastest that this machine runs"),
        (BARE, "auto", "cpu", False, "eager", "no compile on cpu"),
        (BARE_GPU, "auto", "cuda", False, "cudagraph", "the fastest that this machine runs"),
        (GPU, "cudagraph", "cuda", False, "cudagraph", "as asked"),
        (GPU, "combined", "cuda", True, "combined", "as asked"),
        (CPU, "eager", "cpu", False, "eager", "as asked"),
        (CPU, "cudagraph", "cpu", True, "eager", "in place of cudagraph, as execution.fallback"),
        (CPU, "combined", "cpu", True, "compile", "in place of combined, as execution.fallback"),
        (BARE, "combined", "cpu", True, "eager", "in place of combined"),
        (BARE, "compile", "cpu", True, "eager", "in place of compile"),
    ],
)
def test_what_runs_is_chosen_with_a_reason(
    machine, mode, device, fallback, effective, why, monkeypatch
):
    monkeypatch.setattr(doctor, "examine", dict)
    monkeypatch.setattr(doctor, "execution_modes", lambda found: machine)
    chosen, reason = choose(mode, device, fallback)
    assert chosen == effective
    assert reason.startswith(why)


@pytest.mark.parametrize(
    ("machine", "mode", "device"),
    [(CPU, "combined", "cpu"), (GPU, "cudagraph", "cpu"), (BARE, "compile", "cpu")],
)
def test_a_mode_that_does_not_run_is_refused_without_a_fallback(machine, mode, device, monkeypatch):
    monkeypatch.setattr(doctor, "examine", dict)
    monkeypatch.setattr(doctor, "execution_modes", lambda found: machine)
    with pytest.raises(UsageError) as refused:
        choose(mode, device)
    assert f"execution.mode is {mode!r}, but no {mode} on {device}" in str(refused.value)
    assert "execution.fallback=true" in str(refused.value)


def test_the_doctor_knows_every_mode_that_can_be_run():
    assert list(doctor.execution_modes(doctor.examine())) == [
        "eager",
        "compile",
        "cudagraph",
        "combined",
    ]
