"""What a function is called with, held to its first call.

A compiled function would read other tensors as if they were like those of its first call, and a
captured one broadcast them, cast them, or read what an earlier call left behind.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase


@dataclass(frozen=True, slots=True)
class _Entries:
    batch_size: torch.Size
    of: dict[str, Any]  # the layout of each entry


class Inputs:
    """The inputs of `fn` after its first `bound` arguments."""

    def __init__(self, fn: Callable[..., Any], name: str, bound: int):
        self._name, self._bound = name, bound
        self._layout: tuple[Any, ...] | None = None
        parameters = inspect.signature(fn).parameters.values()
        self._names = [one.name for one in parameters if one.kind != one.VAR_POSITIONAL][bound:]

    def leaves(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Their tensors, always in the order of the first call."""
        if self._layout is None:
            self._layout = tuple(_layout(x, self._path(i)) for i, x in enumerate(inputs))
        found: list[torch.Tensor] = []
        matching = len(inputs) == len(self._layout)
        for value, expected in zip(inputs, self._layout):  # noqa: B905, strict costs time
            matching = matching and _collect(value, expected, found)
        if not matching:
            raise ValueError(self._difference(inputs, self._layout))
        return found

    def rebuilt(self, leaves: Sequence[torch.Tensor]) -> list[Any]:
        """Inputs like those of the first call, made of other tensors."""
        remaining = iter(leaves)
        return [_rebuild(expected, remaining) for expected in self._layout or ()]

    def _path(self, index: int) -> str:
        if index < len(self._names):
            return self._names[index]
        return f"argument {self._bound + index + 1}"  # of *fields

    def _difference(self, inputs: Sequence[Any], layout: Sequence[Any]) -> str:
        if len(inputs) != len(layout):
            return f"{self._name} got {len(inputs)} inputs; its first call had {len(layout)}"
        for index, (value, expected) in enumerate(zip(inputs, layout, strict=True)):
            if words := _compare(value, expected, self._path(index)):
                return f"{self._name}: {words}"
        raise AssertionError("inputs that do not match have a difference")


def _layout(value: Any, path: str) -> Any:
    if isinstance(value, torch.Tensor):
        if not value.is_contiguous():
            raise ValueError(f"{path} is not contiguous; it must be")
        return value.shape, value.dtype, value.device
    if isinstance(value, TensorDictBase):
        entries = {name: _layout(entry, f"{path}[{name!r}]") for name, entry in value.items()}
        return _Entries(value.batch_size, entries)
    raise ValueError(f"{path} is a {type(value).__name__}; it must be a tensor or a TensorDict")


def _collect(value: Any, expected: Any, found: list[torch.Tensor]) -> bool:
    """Whether `value` is as expected; runs at every call, so it says nothing about why not."""
    if type(expected) is tuple:
        if not isinstance(value, torch.Tensor):
            return False
        shape, dtype, device = expected
        found.append(value)
        same = value.shape == shape and value.dtype is dtype and value.device == device
        return same and value.is_contiguous()
    if not isinstance(value, TensorDictBase) or value.batch_size != expected.batch_size:
        return False
    entries = dict(value.items())
    if entries.keys() != expected.of.keys():
        return False
    return all(_collect(entries[name], inner, found) for name, inner in expected.of.items())


def _rebuild(expected: Any, leaves: Any) -> Any:
    if type(expected) is tuple:
        return next(leaves)
    entries = {name: _rebuild(inner, leaves) for name, inner in expected.of.items()}
    return TensorDict(entries, expected.batch_size)


def _compare(value: Any, expected: Any, path: str) -> str | None:
    """What differs, as the rest of a sentence."""
    if type(expected) is tuple:
        now, before = _words(value), _words(expected)
        if now != before:
            return f"{path} is {now}; its first call had {before}"
        return None if value.is_contiguous() else f"{path} is not contiguous; it must be"
    if not isinstance(value, TensorDictBase):
        return f"{path} is {_words(value)}; its first call had a TensorDict"
    if words := _compare_keys(value, expected.of, path):
        return words
    for name, inner in expected.of.items():
        if words := _compare(value[name], inner, f"{path}[{name!r}]"):
            return words
    if value.batch_size != expected.batch_size:
        sizes = [list(each.batch_size) for each in (value, expected)]
        return f"{path} has batch size {sizes[0]}; its first call had {sizes[1]}"
    return None


def _compare_keys(value: TensorDictBase, expected: Mapping[str, Any], path: str) -> str | None:
    names = set(value.keys())
    if missing := sorted(expected.keys() - names):
        return f"{path} has no {missing[0]!r}, which its first call had"
    if extra := sorted(names - expected.keys()):
        return f"{path} has {extra[0]!r}, which its first call had not"
    return None


def _words(value: Any) -> str:
    """float32 [4, 2] on cpu"""
    if isinstance(value, torch.Tensor):
        value = value.shape, value.dtype, value.device
    if type(value) is tuple:
        shape, dtype, device = value
        return f"{str(dtype).removeprefix('torch.')} {list(shape)} on {device}"
    return f"a {type(value).__name__}"
