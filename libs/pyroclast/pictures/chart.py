"""Draws amounts over time: lines with gaps where nothing is known, and marks for what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, element, line, rectangle, text

Values = Sequence[float | None]
"""The value of each step of time; None where nobody recorded one."""

WIDTH: Final = 720
HEIGHT: Final = 200
HEAD: Final = 52
LEFT: Final = 70
TICKS: Final = 6
STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "allocated": ("#2b6cb0", ""),
    "deserved": ("#2f855a", "8 4"),
    "used": ("#b7791f", "2 3"),
    "waiting": ("#c53030", "6 2 2 2"),
}
"""The colour and the dashes of each line; the legend shows both, since colours alone do not tell lines apart."""


def chart(title: str, times: Sequence[str], lines: Mapping[str, Values], marks: Sequence[tuple[int, str]] = ()) -> Picture:
    """Return the chart. `lines`: by a name in `STYLES`. `marks`: steps of time at which something happened, with what."""
    most = max((value for values in lines.values() for value in values if value is not None), default=0.0) or 1.0
    scale, bottom = WIDTH / max(1, len(times) - 1), HEAD + HEIGHT
    parts = [text(8, 16, title, kind="strong"), *_legend(lines)]
    for index in range(3):
        y = bottom - HEIGHT * index / 2
        parts += [line(LEFT, y, LEFT + WIDTH, y), text(LEFT - 6, y + 4, f"{most * index / 2:.4g}", anchor="end")]
    for index in range(0, len(times), max(1, -(-len(times) // TICKS))):
        parts.append(text(LEFT + index * scale, bottom + 16, times[index][5:16].replace("T", " "), kind="faint", anchor="middle"))
    for name, values in lines.items():
        parts += _line(name, values, scale, bottom, HEIGHT / most)
    for index, what in marks:
        x = LEFT + index * scale
        parts += [rectangle(x - 3, bottom + 22, 6, 12, fill="#c05621", title=f"{times[index][:16]}: {what}")]
    parts.append(text(8, bottom + 33, "events", kind="faint"))
    return Picture(title, LEFT + WIDTH + 50, bottom + 42, tuple(parts))


def _line(name: str, values: Values, scale: float, bottom: float, high: float) -> list[str]:
    colour, dashes = STYLES[name]
    parts = []
    for is_known, steps in groupby(enumerate(values), key=lambda each: each[1] is not None):
        points = [(LEFT + at * scale, bottom - (value or 0.0) * high) for at, value in steps] if is_known else []
        if points:
            points = points if len(points) > 1 else [points[0], (points[0][0] + 2, points[0][1])]
            written = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            attributes: dict[str, object] = {"points": written, "stroke": colour, "stroke-width": 2, "stroke-dasharray": dashes}
            parts.append(element("polyline", {**attributes, "fill": "none"}))
    return parts


def _legend(lines: Mapping[str, Values]) -> list[str]:
    parts, x = [], float(LEFT)
    for name in lines:
        colour, dashes = STYLES[name]
        points = f"{x:.0f},30 {x + 26:.0f},30"
        parts.append(element("polyline", {"points": points, "stroke": colour, "stroke-width": 2, "stroke-dasharray": dashes}))
        parts.append(text(x + 31, 34, name))
        x += 31 + CHARACTER_WIDTH * len(name) + 24
    return parts


def sparkline(title: str, values: Values) -> Picture:
    """Return a small line without axes."""
    known = [value for value in values if value is not None]
    most, scale = max(known, default=0.0) or 1.0, 96 / max(1, len(values) - 1)
    points = " ".join(
        f"{2 + at * scale:.1f},{42 - 18 * value / most:.1f}" for at, value in enumerate(values) if value is not None
    )
    drawn = element("polyline", {"points": points, "stroke": "#2b6cb0", "stroke-width": 1.5, "fill": "none"})
    return Picture(title, 100, 46, (drawn,) if len(known) > 1 else ())
