import pytest
import torch
from dqn_cases import learner, transitions

from leanfast.learners import optimizer


def after(ours, updates=5):
    for seed in range(updates):
        metrics = ours.update(ours.state, transitions(seed))
    return ours.state["params"], metrics


@pytest.mark.parametrize("options", [{}, {"double": True, "loss": "huber"}])
def test_accumulated_gradients_are_those_of_the_full_batch(options):
    whole, parts = learner(**options), learner(accumulate=4, **options)
    batch = transitions(1)
    for one, other in zip(
        whole._gradient(whole.state, batch), parts._gradient(parts.state, batch), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_computes_in_it_and_keeps_weights_in_float32(precision):
    ours, full = learner(precision=precision), learner()
    (params, metrics), (expected, _) = after(ours), after(full)
    assert params.dtype == torch.float32
    assert metrics["loss"].dtype == torch.float32
    assert not torch.equal(params, expected)
    torch.testing.assert_close(params, expected, atol=0.05, rtol=0)


def test_the_gradient_in_float16_does_not_depend_on_the_scale_of_the_loss():
    ours, batch = learner(precision="fp16"), transitions(1)
    gradients = []
    for scale in (1.0, 1024.0):
        ours.state["loss_scale"].fill_(scale)
        gradients.append(ours._gradient(ours.state, batch)[0])
    torch.testing.assert_close(*gradients, atol=2e-3, rtol=2e-2)


def test_an_overflow_in_float16_changes_nothing_but_the_scale():
    ours = learner(precision="fp16")
    after(ours, 2)
    ours.state["loss_scale"].fill_(2.0**40)
    before = ours.state.clone()
    metrics = ours.update(ours.state, transitions(9))
    for name in ("params", "exp_avg", "exp_avg_sq", "optimizer_steps"):
        assert torch.equal(ours.state[name], before[name]), name
    assert float(ours.state["loss_scale"]) == 2.0**39
    assert metrics["loss"].isfinite()
    assert int(ours.state["updates"]) == 3


def test_the_scale_doubles_after_as_many_steps_without_overflow_as_torchs():
    ours = learner(precision="fp16")
    ours.state["loss_scale"].fill_(8.0)
    ours.state["steps_at_scale"].fill_(optimizer.GROWTH_INTERVAL - 1)
    after(ours, 1)
    assert float(ours.state["loss_scale"]) == 16.0
    assert int(ours.state["steps_at_scale"]) == 0
