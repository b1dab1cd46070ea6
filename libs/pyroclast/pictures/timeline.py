"""Draws a timeline: a lane for each pod, with a bar for each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, line, rectangle, text

LANE_HEIGHT: Final = 22
BAR_HEIGHT: Final = 14
WIDTH: Final = 720
TICKS: Final = 5
HEAD: Final = 46
UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
COLOURS: Final[Mapping[str, str]] = {"waiting": "#b7791f", "starting": "#6b46c1", "running": "#2b6cb0"}
"""The stages in the order in which a pod passes through them. The legend and the title of each bar also name them."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stage from `begin` to `end`, in seconds since the beginning of the timeline."""

    stage: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the timeline: the stages of one pod."""

    name: str
    spans: tuple[Span, ...]


def timeline(title: str, lanes: Sequence[Lane]) -> Picture:
    """Return the picture of a timeline. Names may be any text; the stages are those in `COLOURS`."""
    left = CHARACTER_WIDTH * max((len(lane.name) for lane in lanes), default=0) + 16
    whole = max((span.end for lane in lanes for span in lane.spans), default=0) or 1
    scale = WIDTH / whole
    height = HEAD + LANE_HEIGHT * len(lanes) + 24
    parts = [text(8, 16, title, kind="strong"), *_legend(left), *_ticks(left, whole, height)]
    for index, lane in enumerate(lanes):
        top = HEAD + index * LANE_HEIGHT
        parts.append(text(8, top + 12, lane.name))
        parts += [_bar(lane.name, span, left + span.begin * scale, top, (span.end - span.begin) * scale) for span in lane.spans]
    return Picture(title, left + WIDTH + 32, height, tuple(parts))


def _bar(name: str, span: Span, x: float, top: float, width: float) -> str:
    told = f"{name}: {span.stage} from {span.begin:g} s to {span.end:g} s"
    return rectangle(x, top, max(width, 1), BAR_HEIGHT, fill=COLOURS[span.stage], title=told)


def _legend(left: float) -> list[str]:
    parts = []
    for index, (stage, colour) in enumerate(COLOURS.items()):
        x = left + index * 100
        parts += [rectangle(x, 24, 12, 12, fill=colour), text(x + 17, 34, stage)]
    return parts


def _ticks(left: float, whole: float, height: float) -> list[str]:
    parts = []
    for index in range(TICKS + 1):
        x = left + WIDTH * index / TICKS
        parts.append(line(x, HEAD - 4, x, height - 20))
        parts.append(text(x, height - 6, _written(whole * index / TICKS), anchor="middle"))
    return parts


def _written(seconds: float) -> str:
    """Return seconds as text in the largest unit of which there are at least two."""
    size, unit = next((each for each in UNITS if seconds >= 2 * each[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"
