import pytest
import torch
from torch import nn

from leanfast.config import Network
from leanfast.networks import action_values, cannot_convolve, channels_last


def network(
    shape=(4,), actions=3, seed=1, type="auto", hidden=(16, 8), layer_norm=False, **options
):
    return action_values(shape, actions, Network(type, list(hidden), layer_norm), seed, **options)


def layers(of, kind):
    return [layer for layer in of.modules() if isinstance(layer, kind)]


def test_an_mlp_has_the_widths_asked_for_and_takes_any_batch():
    made = network()
    sizes = [(layer.in_features, layer.out_features) for layer in layers(made, nn.Linear)]
    assert sizes == [(4, 16), (16, 8), (8, 3)]
    assert made.module(torch.zeros(5, 4)).shape == (5, 3)
    assert made.module(torch.zeros(2, 5, 4)).shape == (2, 5, 3)
    assert made.module(torch.zeros(4)).shape == (3,)


def test_without_hidden_layers_it_is_linear():
    assert len(layers(network(hidden=()), nn.Linear)) == 1


def test_layer_norm_stands_before_every_activation():
    norms = layers(network(layer_norm=True), nn.LayerNorm)
    assert [norm.normalized_shape for norm in norms] == [(16,), (8,)]


def test_large_planes_get_natures_network():
    made = network((4, 84, 84), 6, hidden=[512], planes=True, highest=255)
    convolutions = [
        (c.out_channels, c.kernel_size[0], c.stride[0]) for c in layers(made, nn.Conv2d)
    ]
    assert convolutions == [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
    assert [layer.in_features for layer in layers(made, nn.Linear)] == [3136, 512]
    planes = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    assert made.module(planes).shape == (2, 6)


def test_small_planes_get_a_smaller_one_and_an_mlp_flattens_them():
    planes = torch.randint(2, (5, 3, 12, 12), dtype=torch.uint8) * 255
    made = network((3, 12, 12), planes=True, highest=255)
    assert len(layers(made, nn.Conv2d)) == 1
    flat = network((3, 12, 12), type="mlp", planes=True, highest=255)
    assert layers(flat, nn.Conv2d) == []
    assert made.module(planes).shape == flat.module(planes).shape == (5, 3)


def test_planes_too_small_to_convolve_are_flattened():
    assert not layers(network((3, 2, 12), planes=True), nn.Conv2d)


def test_planes_reach_the_network_as_numbers_up_to_1():
    made = network((3, 12, 12), type="mlp", planes=True, highest=255)
    planes = torch.randint(256, (5, 3, 12, 12), dtype=torch.uint8)
    expected = made.module.head(made.module.body(planes.to(torch.float32) / 255))
    torch.testing.assert_close(made.module(planes), expected)


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"dueling": True}])
def test_an_image_with_its_channels_last_is_convolved_as_with_its_channels_first(options):
    made = network((96, 90, 3), planes=True, highest=255, **options)
    first = network((3, 96, 90), planes=True, highest=255, **options)
    assert [c.in_channels for c in layers(made, nn.Conv2d)] == [3, 32, 64]
    first.load_state_dict(
        {
            name: value.permute(2, 0, 1) if value.shape == (96, 90, 3) else value
            for name, value in zip(first.state_dict(), made.state_dict().values(), strict=True)
        }
    )
    image = torch.randint(256, (2, 5, 96, 90, 3), dtype=torch.uint8)
    expected = first.module(image.permute(0, 1, 4, 2, 3))
    assert made.module(image).shape == (2, 5, 3)
    torch.testing.assert_close(made.module(image), expected)


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((96, 96, 3), True),
        ((84, 84, 1), True),
        ((10, 10, 4), True),
        ((3, 96, 96), False),
        ((4, 84, 84), False),
        ((3, 12, 12), False),
        ((4, 3, 3), False),
        ((210, 160, 12), False),
        ((96, 3), False),
        ((3,), False),
        ((), False),
    ],
)
def test_channels_are_last_where_they_are_few_and_the_image_is_larger(shape, last):
    assert channels_last(shape) == last


def test_a_dueling_network_has_a_states_value_as_the_mean_over_its_actions():
    made = network(dueling=True).module
    observation = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    value = made.head.value(made.body(observation)).squeeze(-1)
    torch.testing.assert_close(made(observation).mean(-1), value)
    assert (made(observation).std(-1) > 0).all()


def test_first_weights_depend_on_the_seed_alone():
    first = network(dueling=True).state_dict()
    torch.rand(1)
    again, other = network(dueling=True).state_dict(), network(dueling=True, seed=2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    network()
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("shape", [(4,), (12, 12), (3, 2, 12)])
def test_a_cnn_needs_planes(shape):
    assert "a cnn needs planes" in cannot_convolve(shape)
    assert cannot_convolve((1, 3, 3)) is None
    assert cannot_convolve((3, 3, 1)) is None
