"""Types of settings in all accepted notations: addresses and durations as in Go, lists of names, switches, controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from pyroclast.resources import durations


def split_address(address: str) -> tuple[str | None, int]:
    """Return host (None for all interfaces) and port of `address`; with port 0 the system chooses a port.

    Raises ValueError: `address` is not an address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ValueError(f'"{address}" is not an address such as :8080 or 127.0.0.1:8080')
    return host.strip("[]") or None, int(port)


def _checked(address: str) -> str:
    split_address(address)
    return address


Address = Annotated[str, AfterValidator(_checked)]
"""A field of settings: the address on which to listen."""


_HINT: Final = "a duration such as 500ms, 15s or 1h30m"


def parse_duration(text: str) -> timedelta:
    """Return the duration, to the microsecond; a bare `0` needs no unit.

    Raises ValueError: `text` is not a duration, or is longer than 292 years.
    """
    try:
        return timedelta(microseconds=durations.nanoseconds(text) / 1000)
    except durations.DurationError:
        raise ValueError(f'"{text}" is not {_HINT}') from None


def format_duration(duration: timedelta) -> str:
    """Return the duration as Go prints it: `1h30m0s`, `15s`, `250ms`, `0s`."""
    return durations.shown(duration // timedelta(microseconds=1) * 1000)


def _from_wire(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta):
        return value
    if value == 0 and not isinstance(value, bool):
        return timedelta()
    raise ValueError(f"{value!r} is not {_HINT}")


Duration = Annotated[timedelta, BeforeValidator(_from_wire), PlainSerializer(format_duration, return_type=str)]
"""A field of settings or of a kind, read and written as Go writes durations."""


def _split_names(value: object) -> object:
    """Split text at commas; a repeated flag is a list, whose elements stay as they are."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _split_lists(value: object) -> object:
    if not isinstance(value, list):
        return _split_names(value)
    return [name.strip() for part in value for name in str(part).split(",") if name.strip()]


def _split_gates(value: object) -> object:
    names = _split_lists(value)
    if not isinstance(names, list):
        return names
    gates = {}
    for name in names:
        gate, equals, state = name.partition("=")
        if not equals or state.lower() not in {"true", "false"}:
            raise ValueError(f'"{name}" is not of the form Gate=true or Gate=false')
        gates[gate] = state.lower() == "true"
    return gates


Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
"""A flag that is given once per value; in the environment and the file, a list or text with commas."""
CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split_lists)]
"""A flag whose value is a list with commas; the flag may also be repeated."""
FeatureGates = Annotated[Mapping[str, bool], BeforeValidator(_split_gates)]
"""Feature gates in the form `Gate=true,Other=false`."""


def is_enabled(name: str, selection: Sequence[str]) -> bool:
    """Whether controller `name` runs. The first entry that names it decides; without such an entry, the controller runs if `*` is
    listed.

    An empty list means all controllers.
    """
    for entry in selection:
        if entry in (name, f"+{name}"):
            return True
        if entry == f"-{name}":
            return False
    return not selection or "*" in selection


def _each_once(selection: tuple[str, ...]) -> tuple[str, ...]:
    """Raise ValueError when a controller is named twice; unknown names are ignored."""
    seen = set()
    for entry in selection:
        name = entry.removeprefix("+").removeprefix("-")
        if name in seen and name != "*":
            raise ValueError(f"controllers option {name} cannot have both '-' and '+' prefixes")
        seen.add(name)
    return selection


Controllers = Annotated[CommaSeparated, AfterValidator(_each_once)]
"""The value of `--controllers`."""
