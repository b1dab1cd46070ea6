"""Draws a timeline: a lane for each pod, with a bar for each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, line, linked, rectangle, text

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
    """A stage from `begin` to `end`, in seconds since the beginning of the timeline; `text` stands in the bar if it fits."""

    stage: str
    begin: float
    end: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the timeline: the stages of one pod. `link`: the URL behind its name."""

    name: str
    spans: tuple[Span, ...]
    link: str = ""


def timeline(title: str, lanes: Sequence[Lane], colours: Mapping[str, str] = COLOURS) -> Picture:
    """Return the picture of a timeline. Names may be any text; the stages are those in `colours`."""
    left = CHARACTER_WIDTH * max((len(lane.name) for lane in lanes), default=0) + 16
    whole = max((span.end for lane in lanes for span in lane.spans), default=0) or 1
    scale = WIDTH / whole
    height = HEAD + LANE_HEIGHT * len(lanes) + 24
    parts = [text(8, 16, title, kind="strong"), *_legend(left, colours), *_ticks(left, whole, height)]
    for index, lane in enumerate(lanes):
        top = HEAD + index * LANE_HEIGHT
        parts.append(linked(lane.link, text(8, top + 12, lane.name)))
        for span in lane.spans:
            x, width = left + span.begin * scale, (span.end - span.begin) * scale
            parts += _bar(lane.name, span, colours[span.stage], x=x, top=top, width=width)
    return Picture(title, left + WIDTH + 32, height, tuple(parts), has_links=any(lane.link for lane in lanes))


def _bar(name: str, span: Span, colour: str, *, x: float, top: float, width: float) -> list[str]:
    told = f"{name}: {span.stage} from {span.begin:g} s to {span.end:g} s{f', {span.text}' if span.text else ''}"
    parts = [rectangle(x, top, max(width, 1), BAR_HEIGHT, fill=colour, title=told)]
    if span.text and len(span.text) * CHARACTER_WIDTH + 6 < width:
        parts.append(text(x + 4, top + 11, span.text, kind="cell"))
    return parts


def _legend(left: float, colours: Mapping[str, str]) -> list[str]:
    parts = []
    for stage, colour in colours.items():
        parts += [rectangle(left, 24, 12, 12, fill=colour), text(left + 17, 34, stage)]
        left += max(100, len(stage) * CHARACTER_WIDTH + 36)
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
