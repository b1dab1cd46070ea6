"""Typed access to the arguments of plugins and actions. As with Volcano, a wrong value means the default; a warning says so."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pyroclast.resources import durations
from pyroclast.resources.go_flags import parse_bool

T = TypeVar("T")
Number = TypeVar("Number", int, float)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean NAME?` with the most similar of `names`, or an empty text if none is similar."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1


class Arguments(Mapping[str, Any]):
    """The arguments and flags of one configuration entry, with the keys that are `known` as they were read, and `warnings`."""

    def __init__(self, values: Mapping[str, Any] | None = None, flags: Collection[str] = ()) -> None:
        self._values = dict(values or {})
        self._flags = flags
        self._path = ""
        self._sections: list[Arguments] = []
        self.warnings: list[str] = []
        self.known: set[str] = set()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - a YAML value
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, key: str, default: int, *, least: int | None = None, most: int | None = None) -> int:
        """Return a YAML integer from `least` to `most`; None for no bound."""
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            return self.wrong(key, value, "an integer", default)
        if not _SMALLEST <= value <= _LARGEST:
            return self.wrong(key, value, "an integer of 64 bits", default)
        return self._bounded(key, value, default, least, most)

    def number(self, key: str, default: float, *, least: float | None = None, most: float | None = None) -> float:
        """Return a YAML float or integer from `least` to `most`; None for no bound."""
        value = self._take(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return self.wrong(key, value, "a number", default)
        if abs(value) > sys.float_info.max:
            return self.wrong(key, value, "a finite number", default)
        return self._bounded(key, float(value), default, least, most)

    def boolean(self, key: str, *, default: bool) -> bool:
        """Return a YAML bool, or the value of a string in one of the usual spellings."""
        value = self._take(key, default)
        parsed = parse_bool(value) if isinstance(value, str) else value
        return parsed if isinstance(parsed, bool) else self.wrong(key, value, "a bool", default)

    def text(self, key: str, default: str) -> str:
        """Return a YAML string."""
        value = self._take(key, default)
        return value if isinstance(value, str) else self.wrong(key, value, "a string", default)

    def seconds(self, key: str, default: str, *, least: str = "0s") -> float:
        """Return a duration such as `1h30m`, which must be at least `least`, in seconds."""
        value = self._take(key, default)
        try:
            amount = durations.nanoseconds(value) if isinstance(value, str) else -1
        except durations.DurationError:
            amount = -1
        if amount < durations.nanoseconds(least):
            amount = durations.nanoseconds(self.wrong(key, value, f"a duration of {least} or more", default))
        return amount / 1e9

    def section(self, key: str) -> Arguments:
        """Return the arguments in a YAML mapping, empty if the key is missing. Its warnings are added to those of this object."""
        value = self._take(key, {})
        found = Arguments(value if isinstance(value, Mapping) else self.wrong(key, value, "a mapping", {}))
        found._path, found.warnings = f"{self._path}{key}.", self.warnings
        self._sections.append(found)
        return found

    def is_on(self, flag: str) -> bool:
        """Whether the flag, such as `enableHierarchy`, is on."""
        return flag in self._flags

    def problems(self, without_effect: Collection[str] = ()) -> list[str]:
        """Return the warnings, and one text for each unknown key that is not in `without_effect`."""
        return [*self.warnings, *self._unknown_keys(without_effect)]

    def _unknown_keys(self, without_effect: Collection[str]) -> list[str]:
        keys = [key for key in sorted(self._values.keys() - self.known) if self._path + key not in without_effect]
        own = [f"argument {self._path}{key} is unknown{did_you_mean(key, self.known)}" for key in keys]
        return own + [text for each in self._sections for text in each._unknown_keys(without_effect)]

    def wrong(self, key: str, value: object, want: str, default: T) -> T:
        """Add a warning that `value` is not `want`, and return the default."""
        self.warnings.append(f"argument {self._path}{key}: {value!r} is not {want}; using {default!r}")
        return default

    def _take(self, key: str, default: Any) -> Any:  # noqa: ANN401 - a YAML value
        self.known.add(key)
        return self._values.get(key, default)

    def _bounded(self, key: str, value: Number, default: Number, least: float | None, most: float | None) -> Number:
        if (least is None or value >= least) and (most is None or value <= most):
            return value
        want = f"{least} or more" if most is None else f"{most} or less" if least is None else f"from {least} to {most}"
        return self.wrong(key, value, want, default)
