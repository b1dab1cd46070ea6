"""Selects and formats the lines of a container's log, by the options of `kubectl logs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroclast_standalone import times

LogLine = tuple[float, str]
"""Seconds since the epoch, and the text without its line end."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options of a log request. `since` is in seconds since the epoch."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None
    limit_bytes: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], now: float) -> LogOptions:
        """Parse the options in a request's query.

        Raises:
            ValueError: an option is malformed. The message names it.
        """
        since = times.epoch(query["sinceTime"]) if "sinceTime" in query else None
        if "sinceSeconds" in query:
            since = now - _number(query, "sinceSeconds")
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            tail=_number(query, "tailLines") if "tailLines" in query else None,
            since=since,
            limit_bytes=_number(query, "limitBytes") if "limitBytes" in query else None,
        )


def selected(lines: Sequence[LogLine], options: LogOptions) -> Sequence[LogLine]:
    """Return the lines of a container log that `options` select."""
    if options.since is not None:
        lines = [line for line in lines if line[0] >= options.since]
    if options.tail is not None:
        lines = lines[len(lines) - min(options.tail, len(lines)) :]
    return lines


def written(line: LogLine, options: LogOptions) -> bytes:
    """Return a line of a container log in the form in which it is sent to the client."""
    stamp = times.nano_rfc3339(line[0]) + " " if options.timestamps else ""
    return f"{stamp}{line[1]}\n".encode()


def _flag(query: Mapping[str, str], name: str) -> bool:
    return name in query and query[name].lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    if not query[name].isdigit():
        raise ValueError(f"{name}={query[name]}: not a number")
    return int(query[name])
