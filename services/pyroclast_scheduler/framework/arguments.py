"""Typed access to the free-form arguments of plugins and actions, with the original's leniency.

A missing key keeps the default silently; a value of the wrong type keeps it too and is noted as a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast_scheduler.model.booleans import parse_bool

__all__ = ["Arguments"]


class Arguments(Mapping[str, Any]):
    """The arguments of one entry. `warnings` collects what was of the wrong type; keys asked for are remembered in `known`."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        self.warnings: list[str] = []
        self.known: set[str] = set()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - a YAML value
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, key: str, default: int) -> int:
        """A YAML integer."""
        value = self._take(key, default)
        return value if isinstance(value, int) and not isinstance(value, bool) else self._wrong(key, value, "an integer", default)

    def number(self, key: str, default: float) -> float:
        """A YAML float or integer."""
        value = self._take(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number else self._wrong(key, value, "a number", default)

    def boolean(self, key: str, *, default: bool) -> bool:
        """A YAML bool, or a string in one of the usual spellings."""
        value = self._take(key, default)
        parsed = parse_bool(value) if isinstance(value, str) else value
        return parsed if isinstance(parsed, bool) else self._wrong(key, value, "a bool", default)

    def text(self, key: str, default: str) -> str:
        """A YAML string."""
        value = self._take(key, default)
        return value if isinstance(value, str) else self._wrong(key, value, "a string", default)

    def unknown(self) -> list[str]:
        """Keys that nobody asked for."""
        return sorted(set(self._values) - self.known)

    def _take(self, key: str, default: Any) -> Any:  # noqa: ANN401 - a YAML value
        self.known.add(key)
        return self._values.get(key, default)

    def _wrong(self, key: str, value: object, want: str, default: Any) -> Any:  # noqa: ANN401 - a YAML value
        self.warnings.append(f"argument {key}: {value!r} is not {want}; using {default!r}")
        return default
