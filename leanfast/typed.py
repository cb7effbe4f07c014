"""Nested plain values, as YAML gives them, as the dataclasses that say what they must be."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any


def build(cls: type, values: Any, path: str, problems: list[str]) -> Any:
    """An instance of a dataclass, or None with what is wrong with it in `problems`."""
    if not isinstance(values, Mapping):
        problems.append(f"{path} is {values!r}; it must have values of its own")
        return None
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    prefix, given, before = f"{path}." if path else "", {}, len(problems)
    for name, value in values.items():
        if name in fields:
            given[name] = _value(hints[name], value, prefix + name, problems)
        else:
            near = difflib.get_close_matches(str(name), fields, n=1)
            words = f"did you mean {prefix}{near[0]}?" if near else f"there are {', '.join(fields)}"
            problems.append(f"there is no {prefix}{name}; {words}")
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            problems.append(f"{prefix}{name} is missing")
    return cls(**given) if len(problems) == before else None


def _value(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    if dataclasses.is_dataclass(kind):
        return build(typing.cast(type, kind), value, path, problems)
    for accepted in _alternatives(kind):
        if (converted := _convert(accepted, value)) is not _NO:
            return converted
    is_missing = value == "???"
    problems.append(
        f"{path} must be given: {path}=VALUE"
        if is_missing
        else f"{path} is {value!r}; it must be {_words(kind)}"
    )
    return None


_NO = object()


def _convert(kind: Any, value: Any) -> Any:
    """`value` as a `kind`, or _NO."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return value if value in arguments else _NO
    if origin is list and isinstance(value, list):
        items = [_convert(arguments[0], item) for item in value]
        return _NO if _NO in items else items
    if origin is dict and isinstance(value, Mapping):
        return dict(value)  # the environment's own parameters: its header says what they must be
    if value == "???" or (isinstance(value, bool) and kind is not bool):
        return _NO
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e6
    return value if origin is None and isinstance(value, kind) else _NO


def _alternatives(kind: Any) -> tuple[Any, ...]:
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    return typing.get_args(kind) if union else (kind,)


def _words(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
    words |= {type(None): "null", list[int]: "a list of whole numbers, like [120,84]"}
    names: list[str] = []
    for one in _alternatives(kind):
        literal = typing.get_origin(one) is typing.Literal
        names += typing.get_args(one) if literal else [words.get(one, "a set of names and values")]
    return " or ".join(names)
