"""Draws a bar chart of the run times of several runs, such as the Jobs of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.pictures.flow_graph import COLOURS, OTHERWISE
from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, rectangle, text

ROW_HEIGHT: Final = 20
BAR_HEIGHT: Final = 12
WIDTH: Final = 190
HEAD: Final = 26


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its name, its final state, and its run time in seconds and as text."""

    name: str
    state: str
    seconds: float
    written: str


def run_bars(title: str, runs: Sequence[Run]) -> Picture:
    """Return the bar chart of `runs`. Names may be any text."""
    left = CHARACTER_WIDTH * max((len(run.name) for run in runs), default=0) + 18
    scale = WIDTH / (max((run.seconds for run in runs), default=0) or 1)
    parts = [text(8, 16, title, kind="strong")]
    for index, run in enumerate(runs):
        top = HEAD + index * ROW_HEIGHT
        width = max(run.seconds * scale, 1)
        colour = COLOURS.get(run.state, OTHERWISE)
        parts.append(text(8, top + 11, run.name))
        parts.append(rectangle(left, top, width, BAR_HEIGHT, fill=colour, title=f"{run.name}, {run.written}"))
        parts.append(text(left + width + 6, top + 11, run.written, kind="faint"))
    return Picture(title, left + WIDTH + 60, HEAD + len(runs) * ROW_HEIGHT + 6, tuple(parts))
