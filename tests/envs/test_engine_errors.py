"""What bad input gets: one sentence with the argument, the place, the value and what is valid; and
an engine that goes on as if it had not been asked."""

import numpy as np
import pytest
import torch
from engine_cases import assert_same, copied, play

from leanfast.envs.native import Engine

ONE_SENTENCE = 300


def assert_refused(error: type[Exception], words: str, call) -> None:
    with pytest.raises(error, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < ONE_SENTENCE


@pytest.mark.parametrize(
    ("error", "words", "options"),
    [
        (ValueError, "no environment 'cartpol'.*did you mean cartpole", {"env": "cartpol"}),
        (ValueError, "no environment 'xyzzy'.*there are: acrobot, cartpole", {"env": "xyzzy"}),
        (ValueError, "no environment ''", {"env": ""}),
        (TypeError, "name must be a string, not int", {"env": 3}),
        (ValueError, "num_envs must be 1 to .*, not 0", {"num_envs": 0}),
        (ValueError, "num_envs must be 1 to .*, not -1", {"num_envs": -1}),
        (ValueError, "num_envs must be 1 to .*, not 99999999999", {"num_envs": 99999999999}),
        (TypeError, "num_envs must be a whole number, not True", {"num_envs": True}),
        (TypeError, r"num_envs must be a whole number, not 1\.5", {"num_envs": 1.5}),
        (TypeError, "num_envs must be a whole number, not '8'", {"num_envs": "8"}),
        (TypeError, "num_envs must be a whole number, not None", {"num_envs": None}),
        (ValueError, "threads must be 1 to .*, not 0", {"threads": 0}),
        (ValueError, "threads must be 1 to .*, not -2", {"threads": -2}),
        (TypeError, r"threads must be a whole number, not 2\.0", {"threads": 2.0}),
        (ValueError, "max_episode_steps must be 1 to .*, not 0", {"max_episode_steps": 0}),
        (ValueError, "precision must be float32 or float64, not 'half'", {"precision": "half"}),
        (ValueError, "precision must be .*, not torch.float32", {"precision": torch.float32}),
        (ValueError, "instruction_set must be baseline.*, not 'mmx'", {"instruction_set": "mmx"}),
        (ValueError, "no parameter 'gravitiy'.*mean gravity", {"params": {"gravitiy": 9.0}}),
        (ValueError, "no parameter 'x'.*it has: gravity, masscart", {"params": {"x": 9.0}}),
        (TypeError, "parameter gravity must be a number.*'9'", {"params": {"gravity": "9"}}),
        (TypeError, "parameter gravity must be a number.*True", {"params": {"gravity": True}}),
        (TypeError, "parameter gravity must be a number.*None", {"params": {"gravity": None}}),
        (ValueError, "gravity must be finite, not nan", {"params": {"gravity": float("nan")}}),
        (ValueError, "gravity must be finite, not inf", {"params": {"gravity": float("inf")}}),
        (ValueError, "seed must be 0 to .*, not -1", {"seed": -1}),
        (ValueError, "seed must be 0 to .*, not 18446744073709551616", {"seed": 2**64}),
        (TypeError, r"seed must be a whole number, not 1\.0", {"seed": 1.0}),
        (TypeError, "seed must be a whole number, not '1'", {"seed": "1"}),
        (ValueError, "seed has 6 values for 5 envs", {"seed": [1] * 6}),
        (ValueError, "seed has 0 values for 5 envs", {"seed": []}),
        (ValueError, r"seed\[3\] must be 0 to .*, not -4", {"seed": [0, 1, 2, -4, 5]}),
        (TypeError, r"seed\[1\] must be a whole number, not 0\.5", {"seed": [0, 0.5, 1, 2, 3]}),
    ],
)
def test_an_engine_that_cannot_be_is_refused(error, words, options):
    assert_refused(error, words, lambda: Engine(**({"env": "cartpole", "num_envs": 5} | options)))


def test_more_envs_than_memory_are_a_memory_error_and_not_the_end_of_the_process():
    words = "num_envs=2147483584 of CartPole-v1 need at least .* GiB; .* GiB of memory are free"
    assert_refused(MemoryError, words, lambda: Engine("cartpole", 2**31 - 64, precision="float64"))


def fill(value: float, at: int, dtype: type, shape: tuple = (70,)) -> np.ndarray:
    array = np.ones(shape, dtype=dtype)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("error", "words", "actions"),
    [
        (ValueError, r"shape \(69,\); it must have shape \(70,\)", np.ones(69, np.int64)),
        (ValueError, r"shape \(70, 1\); it must have shape \(70,\)", np.ones((70, 1), np.int64)),
        (ValueError, r"shape \(\); it must have shape \(70,\)", torch.tensor(1)),
        (ValueError, "actions are float32; CartPole-v1 takes int64 or int32", torch.ones(70)),
        (ValueError, "actions are bool", np.ones(70, np.bool_)),
        (ValueError, "actions are uint8", np.ones(70, np.uint8)),
        (ValueError, "actions are uint64", np.ones(70, np.uint64)),
        (ValueError, "actions are int16", torch.ones(70, dtype=torch.int16)),
        (ValueError, "actions are another type of 64 bits", np.ones(70, object)),
        (ValueError, "another type of 64 bits.*int64", np.ones(70, ">i8")),
        (ValueError, "not contiguous.*contiguous", np.ones((70, 2), np.int64)[:, 0]),
        (ValueError, "not contiguous", torch.ones(140, dtype=torch.int64)[::2]),
        (ValueError, "not contiguous", np.ones(70, np.int64)[::-1]),
        (ValueError, "not contiguous", torch.ones(1, dtype=torch.int64).expand(70)),
        (ValueError, "aligned", np.frombuffer(bytes(561), np.uint8)[1:].view(np.int64)),
        (ValueError, "CPU memory.*meta", torch.ones(70, dtype=torch.int64, device="meta")),
        (ValueError, "dense tensor in CPU", torch.ones(70, dtype=torch.int64).to_sparse()),
        (ValueError, r"actions\[64\] is 2; CartPole-v1 takes 0 to 1", fill(2, 64, np.int64)),
        (ValueError, r"actions\[0\] is -1; CartPole-v1 takes 0 to 1", fill(-1, 0, np.int32)),
        (ValueError, r"actions\[3\] is 9223372036854775807;", fill(2**63 - 1, 3, np.int64)),
        (ValueError, r"actions\[3\] is -9223372036854775808;", fill(-(2**63), 3, np.int64)),
        (ValueError, r"actions\[69\] is 4294967296;", fill(2**32, 69, np.int64)),
        (ValueError, r"actions\[69\] is -2147483648;", fill(-(2**31), 69, np.int32)),
        (TypeError, "actions must be a torch tensor or a NumPy array, not list", [1] * 70),
        (TypeError, "actions must be a torch tensor or a NumPy array, not int", 1),
        (TypeError, "actions must be a torch tensor or a NumPy array, not NoneType", None),
    ],
)
def test_bad_discrete_actions_are_refused_and_change_nothing(error, words, actions):
    refused_and_unchanged("cartpole", error, words, actions)


@pytest.mark.parametrize(
    ("error", "words", "actions"),
    [
        (ValueError, r"actions\[64, 0\] is nan;.*-2\.0 to 2\.0", fill(np.nan, 64, "f4", (70, 1))),
        (ValueError, r"actions\[0, 0\] is inf;", fill(np.inf, 0, "f4", (70, 1))),
        (ValueError, r"actions\[69, 0\] is -inf;", fill(-np.inf, 69, "f4", (70, 1))),
        (ValueError, r"actions\[5, 0\] is 2\.000000\d+;", fill(2.0000002, 5, "f4", (70, 1))),
        (ValueError, "actions are float64; Pendulum-v1 takes float32", np.ones((70, 1))),
        (ValueError, "actions are int64", np.ones((70, 1), np.int64)),
        (ValueError, "actions are float16", torch.ones(70, 1).half()),
        (ValueError, "another type of 16 bits", torch.ones(70, 1).bfloat16()),
        (ValueError, "another type of 32 bits", np.ones((70, 1), ">f4")),
        (ValueError, r"shape \(70,\); it must have shape \(70, 1\)", torch.ones(70)),
    ],
)
def test_bad_continuous_actions_are_refused_and_change_nothing(error, words, actions):
    refused_and_unchanged("pendulum", error, words, actions)


def test_a_tensor_without_memory_is_refused():
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(70, dtype=torch.int64)
    refused_and_unchanged("cartpole", TypeError, "actions must be .* has no memory", fake)


def refused_and_unchanged(env: str, error: type[Exception], words: str, actions) -> None:
    engine, untouched = (Engine(env, 70, seed=6, threads=3) for _ in range(2))
    for e in (engine, untouched):
        e.reset()
    batch = engine.buffers[0], engine.buffers[1]
    before = [copied(b) for b in batch]
    assert_refused(error, words, lambda: engine.send(actions))
    assert not engine.in_flight
    assert_refused(error, words, lambda: engine.step(actions))
    assert_same(before, [copied(b) for b in batch])
    assert_same(play(engine, 5), play(untouched, 5))


@pytest.mark.parametrize(
    ("error", "words", "options"),
    [
        (ValueError, "mask is uint8; it must be bool", {"mask": np.ones(70, np.uint8)}),
        (ValueError, "mask is float32; it must be bool", {"mask": torch.ones(70)}),
        (ValueError, r"mask has shape \(69,\)", {"mask": np.ones(69, np.bool_)}),
        (ValueError, r"mask has shape \(1, 70\)", {"mask": np.ones((1, 70), np.bool_)}),
        (ValueError, "mask is not contiguous", {"mask": np.ones(140, np.bool_)[::2]}),
        (TypeError, "mask must be a torch tensor or a NumPy array", {"mask": [True] * 70}),
        (ValueError, "seed must be 0 to", {"seed": -1}),
        (ValueError, "seed has 3 values for 70 envs", {"seed": [1, 2, 3]}),
        (TypeError, "seed must be a whole number", {"seed": 0.0}),
        (TypeError, "seed must be a whole number", {"seed": False}),
    ],
)
def test_a_bad_reset_is_refused_and_changes_nothing(error, words, options):
    engine, untouched = (Engine("cartpole", 70, seed=6) for _ in range(2))
    engine.reset(), untouched.reset()
    assert_refused(error, words, lambda: engine.reset(**options))
    if "mask" in options:
        assert_refused(error, words, lambda: engine.reset(seed=77, **options))
    assert_same(play(engine, 5), play(untouched, 5))


def test_calls_at_the_wrong_time_are_refused_and_change_nothing():
    engine, untouched = (Engine("cartpole", 70, seed=6) for _ in range(2))
    actions = torch.ones(70, dtype=torch.int64)
    mask = torch.ones(70, dtype=torch.bool)
    assert_refused(
        ValueError, r"send: .*not reset yet; call reset\(\)", lambda: engine.send(actions)
    )
    assert_refused(ValueError, r"send: .*call reset\(\)", lambda: engine.step(actions))
    assert_refused(ValueError, r"recv: no batch", engine.recv)
    assert_refused(ValueError, "first reset must be of all", lambda: engine.reset(mask=mask))
    engine.reset(), untouched.reset()
    assert_refused(ValueError, r"recv: no batch .*call send\(actions\)", engine.recv)
    engine.send(actions)
    untouched.send(actions)
    assert_refused(ValueError, r"send: .*already; call recv\(\)", lambda: engine.send(actions))
    assert_refused(ValueError, r"reset: .*under way; call recv\(\)", engine.reset)
    assert_same([copied(engine.recv())], [copied(untouched.recv())])
    assert_refused(ValueError, "recv: no batch", engine.recv)
    assert_same(play(engine, 5), play(untouched, 5))


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_closed_engine_says_so_and_a_second_close_does_nothing(in_flight):
    engine = Engine("cartpole", 20000, threads=3)
    engine.reset()
    actions = torch.ones(20000, dtype=torch.int64)
    if in_flight:
        engine.send(actions)
    engine.close()
    engine.close()
    assert engine.closed
    calls = (engine.reset, engine.recv, engine.state_dict, engine.records)
    for call in (
        *calls,
        lambda: engine.send(actions),
        lambda: engine.slot(),
        lambda: engine.step(actions),
    ):
        assert_refused(ValueError, "closed", call)


def test_leaving_a_with_block_closes():
    with Engine("cartpole", 2) as engine:
        engine.reset()
    assert engine.closed
