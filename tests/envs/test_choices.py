import numpy as np
import pytest

from leanfast.envs.choices import MOST, most_bins, problem, table
from leanfast.envs.registry import find


def box(low, high, shape):
    return {"dtype": "float", "shape": shape, "low": low, "high": high}


def test_values_are_evenly_spaced_and_both_bounds_are_among_them():
    rows = table(box([-2.0], [2.0], (1,)), 5)
    assert rows.dtype == np.float32
    assert rows.tolist() == [[-2.0], [-1.0], [0.0], [1.0], [2.0]]


def test_every_combination_of_dimensions_is_a_choice_and_the_last_changes_first():
    rows = table(box([-1.0, 0.0], [1.0, 3.0], (2,)), 3)
    assert rows.tolist() == [[x, y] for x in (-1.0, 0.0, 1.0) for y in (0.0, 1.5, 3.0)]


def test_a_choice_has_the_actions_shape():
    rows = table(box([0.0], [1.0], (2, 3)), 2)
    assert rows.shape == (2**6, 2, 3)
    assert len(np.unique(rows.reshape(64, 6), axis=0)) == 64


@pytest.mark.parametrize("bins", [2, 7, 100])
def test_no_value_leaves_the_bounds_that_float32_has(bins):
    low, high = float(np.float32(-0.7)), float(np.float32(0.1))
    rows = table(box([low], [high], (1,)), bins)
    assert (rows.min(), rows.max()) == (np.float32(-0.7), np.float32(0.1))


def test_bounds_are_those_that_the_parameters_make():
    spec = find("pendulum").spec({"max_torque": 7.5})
    assert table(spec["action"], 2).tolist() == [[-7.5], [7.5]]


@pytest.mark.parametrize("size", [1, 2, 4, 6, 12])
def test_as_many_choices_as_are_allowed_are_made_and_no_more(size):
    action = {"action": box([0.0], [1.0], (size,))}
    bins = most_bins(size)
    assert bins >= 2
    assert problem("it", action, bins) is None
    assert len(table(action["action"], bins)) == bins**size <= MOST
    said = problem("it", action, bins + 1)
    assert said is not None
    assert said.endswith(f"so it can be 2 to {bins}")


@pytest.mark.parametrize(
    ("action", "bins", "said"),
    [
        (2, 4, "env.action_bins is 4, but it has 2 actions as it is; leave it null"),
        (box([0], [1], (1,)), 1, "env.action_bins is 1; it must be at least 2, for both bounds"),
        (box([0], [1], (1,)), -3, "env.action_bins is -3; it must be at least 2"),
        (
            box([0], [1], (1,)),
            None,
            "it has continuous actions of 1 dimension, and a few to choose from are needed: "
            "env.action_bins=11 takes",
        ),
        (box([0], [1], (6,)), None, "it has continuous actions of 6 dimensions, and a few"),
        (box([0], [np.inf], (1,)), 3, "it has actions without bounds, so that env.action_bins=3"),
        (
            box([0], [1], (6,)),
            11,
            "env.action_bins is 11, which makes 11^6 choices of it's 6 dimensions; 4096 are the "
            "most, so it can be 2 to 4",
        ),
        (box([0], [1], (17,)), 2, "it has continuous actions of 17 dimensions, of which even 2"),
        (box([0], [1], (17,)), None, "it has continuous actions of 17 dimensions, of which even 2"),
    ],
)
def test_what_cannot_be_chosen_among_is_said(action, bins, said):
    assert str(problem("it", {"action": action}, bins)).startswith(said)


def test_what_can_be_chosen_among_is_no_problem():
    assert problem("it", {"action": 3}, None) is None
    assert problem("it", {"action": box([0], [1], (2,))}, 5) is None
