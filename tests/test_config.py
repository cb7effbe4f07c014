import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from leanfast import probes
from leanfast.config import GRAPH_MODES, load
from leanfast.envs.registry import find
from leanfast.errors import UsageError
from leanfast.paths import conf_dir


def composed(*overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return OmegaConf.to_container(compose("config", list(overrides)), resolve=True)


def complaints(*overrides):
    with pytest.raises(UsageError) as refused:
        load(composed(*overrides))
    return str(refused.value).splitlines()


def choices(group):
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


OTHERS = ("custom", "gymnasium")  # these name none until a source or an id is given


@pytest.mark.parametrize("env", [name for name in choices("env") if name not in OTHERS])
def test_every_environments_file_names_one_that_can_be_trained(env):
    config = load(composed(f"env={env}"))
    assert find(config.env.label).key == env


@pytest.mark.parametrize("group", ["pipeline", "execution", "experiment"])
def test_every_choice_of_a_group_loads(group):
    for choice in choices(group):
        # cudagraph and combined load on a machine without CUDA only with something to fall back to.
        assert load(composed(f"{group}={choice}", "execution.fallback=true")).total_steps > 0


def test_equal_work_is_cleanrls_dqn():
    config = load(composed("experiment=equal_work"))
    algo = config.algo
    assert (algo.batch_size, algo.learning_rate, algo.buffer_size) == (128, 2.5e-4, 10_000)
    assert (algo.learning_starts, algo.updates_per_step, algo.target_every) == (10_000, 0.1, 500)
    assert (algo.epsilon.start, algo.epsilon.end, algo.epsilon.steps) == (1.0, 0.05, 250_000)
    assert (config.total_steps, config.network.hidden) == (500_000, [120, 84])


def test_numbers_take_the_type_that_their_field_has():
    config = load(composed("total_steps=1e5", "algo.discount=1"))
    assert (config.total_steps, type(config.total_steps)) == (100_000, int)
    assert (config.algo.discount, type(config.algo.discount)) == (1.0, float)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("seed=-1", "seed is -1; it must be 0 to 4294967295"),
        ("seed=1.5", "seed is 1.5; it must be a whole number"),
        ("total_steps=0", "total_steps is 0; it must be at least 1"),
        ("algo.batch_size=abc", "algo.batch_size is 'abc'; it must be a whole number or auto"),
        ("algo.batch_size=true", "algo.batch_size is True; it must be a whole number"),
        ("algo.double=1", "algo.double is 1; it must be true or false"),
        ("algo.loss=l1", "algo.loss is 'l1'; it must be huber or mse"),
        ("algo.discount=nan", "algo.discount is nan; it must be 0 to 1"),
        ("algo.tau=0", "algo.tau is 0.0; it must be more than 0 and at most 1"),
        ("algo.max_grad_norm=0", "algo.max_grad_norm is 0.0; it must be more than 0"),
        (
            "algo.target_every=0",
            "algo.target_every is 0 and algo.tau is 1, so the target is the network itself",
        ),
        (
            "algo.updates_per_step=1e-6",
            "algo.updates_per_step is 1e-06, which owes 0.198 updates by total_steps=200000",
        ),
        ("network.hidden=[8,0]", "network.hidden[1] is 0; it must be 1 to 65536"),
        (
            "network.hidden=8",
            "network.hidden is 8; it must be a list of whole numbers, like [120,84]",
        ),
        ("algo.buffer_size=100", "algo.batch_size is 128, more than algo.buffer_size=100"),
        ("+algo.bath_size=1", "there is no algo.bath_size; did you mean algo.batch_size?"),
        ("~algo.tau", "algo.tau is missing"),
        ("eval=3", "eval is 3; it must have values of its own"),
        ("env=custom", "env.source must be given: env.source=VALUE"),
        ("env=gymnasium", "env.id must be given: env.id=VALUE"),
        ("env.name=null", "env must have either a name, or a source"),
        ("+env.id=CartPole-v1", "env must have either a name, or a source"),
        ("env.name=pendulum", "pendulum has continuous actions of 1 dimension, and a few to"),
        ("env.action_bins=5", "env.action_bins is 5, but cartpole has 2 actions as it is"),
        ("env.action_bins=some", "env.action_bins is 'some'; it must be a whole number or null"),
        ("+env.vectorization=sync", "env.vectorization is 'sync', but cartpole is stepped by"),
        ("+env.params.gravity=down", "cartpole's parameter gravity must be a number"),
        (
            "execution.mode=fast",
            "execution.mode is 'fast'; it must be auto, eager, compile, cudagraph",
        ),
    ],
)
def test_a_bad_value_is_refused_in_one_line(override, complaint):
    (line,) = complaints(override)
    assert line.startswith(complaint)


def test_everything_that_is_wrong_is_said_at_once():
    lines = complaints("seed=-1", "algo.batch_size=0", "algo.discount=2", "env.name=cartpol")
    assert [line.split()[0] for line in lines] == [
        "seed",
        "algo.batch_size",
        "algo.discount",
        "there",
    ]


NO_DRIVER = {"problem": "no NVIDIA driver was found"}


@pytest.mark.parametrize("mode", GRAPH_MODES)
def test_graph_modes_are_refused_without_a_cuda_device_with_what_to_do(mode, monkeypatch):
    monkeypatch.setattr(probes, "cuda_driver", lambda: NO_DRIVER)
    (line,) = complaints(f"execution={mode}")
    assert f"{mode!r}, which needs a CUDA device, and no NVIDIA driver was found" in line
    assert "execution=auto" in line
    assert "execution.fallback=true" in line


@pytest.mark.parametrize("mode", GRAPH_MODES)
def test_graph_modes_load_with_a_fallback_or_a_cuda_device(mode, monkeypatch):
    monkeypatch.setattr(probes, "cuda_driver", lambda: NO_DRIVER)
    assert load(composed(f"execution={mode}", "execution.fallback=true")).execution.mode == mode
    monkeypatch.setattr(probes, "cuda_driver", lambda: {"problem": None})
    monkeypatch.setattr(probes, "torch_cuda", lambda: "13.0")
    assert load(composed(f"execution={mode}")).execution.mode == mode


def test_graph_modes_are_refused_on_the_cpu_of_a_machine_with_a_cuda_device(monkeypatch):
    monkeypatch.setattr(probes, "cuda_driver", lambda: {"problem": None})
    monkeypatch.setattr(probes, "torch_cuda", lambda: "13.0")
    (line,) = complaints("execution=combined", "device=cpu")
    assert "needs a CUDA device, and device is cpu" in line
