"""Names to environments: the built-in headers and, by their path, users' own."""

import difflib
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leanfast import _native

ParamValue = float | int | bool


@dataclass(frozen=True)
class Definition:
    """One environment, compiled: where it came from and what it can be asked."""

    native: _native.Environment
    source: str  # the header's path; for a built-in one, relative to the include folder
    digest: str = ""  # of a user's header: tells its versions apart

    @property
    def key(self) -> str:
        return self.native.key

    @property
    def defaults(self) -> dict[str, ParamValue]:
        return dict(self.native.params)

    def values(self, params: Mapping[str, ParamValue] | None) -> list[float]:
        """Every parameter in the header's order, the given ones checked and in their place."""
        chosen = dict(params or {})
        defaults = self.defaults
        for name in chosen:
            if name not in defaults:
                raise ValueError(
                    f"{self.key} has no parameter {name!r}{_nearest(name, defaults)}; "
                    f"it has: {', '.join(defaults) or 'none'}"
                )
        return [float(_checked(self.key, n, chosen.get(n, d), d)) for n, d in defaults.items()]

    def spec(self, params: Mapping[str, ParamValue] | None = None, real_bytes: int = 4) -> dict:
        return self.native.spec(self.values(params), real_bytes)


@functools.cache
def builtin() -> dict[str, Definition]:
    return {e.key: Definition(e, f"envs/{e.key}.hpp") for e in _native.builtin_environments()}


def find(name: str) -> Definition:
    """`cartpole`, `CartPole-v1`, `leanfast/CartPole-v1`, or the path of a header of one's own."""
    if not isinstance(name, str | Path):
        raise TypeError(f"an environment's name must be a string, not {type(name).__name__}")
    text = str(name)
    if text.endswith((".hpp", ".h", ".hh", ".hxx")):
        from leanfast.envs.custom import build

        return build(Path(text))
    known = names()
    found = known.get(text.removeprefix("leanfast/").casefold())
    if found is None:
        raise ValueError(
            f"there is no environment {text!r}{_nearest(text, known)}; there are: "
            f"{', '.join(builtin())}, or the path of a C++ header (my_env.hpp)"
        )
    return found


@functools.cache
def names() -> dict[str, Definition]:
    """Every spelling that find() takes, lower case."""
    known = {}
    for key, definition in builtin().items():
        full = definition.spec()["name"]
        for spelling in (key, full, full.rpartition("-v")[0]):
            known[spelling.casefold()] = definition
    return known


def _nearest(name: str, among: Mapping[str, object]) -> str:
    by_fold = {known.casefold(): known for known in among}
    close = difflib.get_close_matches(name.casefold(), by_fold, n=2, cutoff=0.5)
    return f" (did you mean {' or '.join(by_fold[c] for c in close)}?)" if close else ""


def _checked(env: str, name: str, value: object, default: ParamValue) -> ParamValue:
    where = f"{env}'s parameter {name}"
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise TypeError(f"{where} must be true or false, not {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{where} must be a number like {default!r}, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{where} must be finite, not {value!r}")
    if isinstance(default, int):
        if value != int(value) or abs(value) >= 2**31:
            raise ValueError(f"{where} must be a whole number like {default!r}, not {value!r}")
        return int(value)
    return float(value)
