"""Draws one bar for each resource of the nodes: its allocated, reserved, unavailable and idle amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, rectangle, text

ROW_HEIGHT: Final = 28
BAR_HEIGHT: Final = 16
WIDTH: Final = 260
HEAD: Final = 46
COLOURS: Final[Mapping[str, str]] = {"allocated": "#2b6cb0", "reserved": "#b7791f", "away": "#a0aec0"}
"""The filled parts. The legend and the titles also name them; the remaining part of the frame is idle."""


@dataclass(frozen=True, slots=True)
class ResourceBar:
    """One resource: its amounts as numbers in one unit, and as texts (`written`), by `total` and the names in `COLOURS`."""

    resource: str
    amounts: Mapping[str, float]
    written: Mapping[str, str]


def resource_bars(title: str, bars: Sequence[ResourceBar]) -> Picture:
    """Return the picture. The width of each bar is the total of its resource. Names may be any text."""
    left = CHARACTER_WIDTH * max((len(bar.resource) for bar in bars), default=0) + 20
    told = [f"{bar.written['allocated']} of {bar.written['total']}" for bar in bars]
    parts = [text(8, 16, title, kind="strong"), *_legend(left)]
    for index, (bar, numbers) in enumerate(zip(bars, told, strict=True)):
        top = HEAD + index * ROW_HEIGHT
        parts += [text(8, top + 12, bar.resource), *_bar(bar, left, top)]
        parts.append(text(left + WIDTH + 10, top + 12, numbers, kind="faint"))
    right = CHARACTER_WIDTH * max(map(len, told), default=0) + 16
    return Picture(title, left + WIDTH + right, HEAD + ROW_HEIGHT * len(bars), tuple(parts))


def _bar(bar: ResourceBar, left: float, top: float) -> list[str]:
    parts = [rectangle(left, top, WIDTH, BAR_HEIGHT, kind="frame", title=f"{bar.resource}: {bar.written['total']} in all")]
    x = left
    for name, colour in COLOURS.items():
        width = WIDTH * bar.amounts[name] / (bar.amounts["total"] or 1)
        if width > 0:
            parts.append(rectangle(x, top, width, BAR_HEIGHT, fill=colour, title=f"{bar.resource}: {bar.written[name]} {name}"))
        x += width
    return parts


def _legend(left: float) -> list[str]:
    parts = []
    for index, (name, colour) in enumerate(COLOURS.items()):
        parts += [rectangle(left + index * 92, 24, 12, 12, fill=colour), text(left + index * 92 + 17, 34, name)]
    x = left + 2 * 92 + 62
    return [*parts, rectangle(x, 24, 12, 12, kind="frame"), text(x + 17, 34, "idle")]
