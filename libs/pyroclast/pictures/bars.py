"""Bars: shares of queues, resources of the cluster, and runs of a Job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.pictures.flow_graph import COLOURS as PHASE_COLOURS
from pyroclast.pictures.flow_graph import OTHERWISE
from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, line, rectangle, text

RUN_ROW_HEIGHT: Final = 20
RUN_BAR_HEIGHT: Final = 12
RUN_WIDTH: Final = 190
RUN_HEAD: Final = 26


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
    scale = RUN_WIDTH / (max((run.seconds for run in runs), default=0) or 1)
    parts = [text(8, 16, title, kind="strong")]
    for index, run in enumerate(runs):
        top = RUN_HEAD + index * RUN_ROW_HEIGHT
        width = max(run.seconds * scale, 1)
        colour = PHASE_COLOURS.get(run.state, OTHERWISE)
        parts.append(text(8, top + 11, run.name))
        parts.append(rectangle(left, top, width, RUN_BAR_HEIGHT, fill=colour, title=f"{run.name}, {run.written}"))
        parts.append(text(left + width + 6, top + 11, run.written, kind="faint"))
    return Picture(title, left + RUN_WIDTH + 60, RUN_HEAD + len(runs) * RUN_ROW_HEIGHT + 6, tuple(parts))


CLUSTER_ROW_HEIGHT: Final = 28
CLUSTER_BAR_HEIGHT: Final = 16
CLUSTER_WIDTH: Final = 260
CLUSTER_HEAD: Final = 46
CLUSTER_COLOURS: Final[Mapping[str, str]] = {"allocated": "#2b6cb0", "reserved": "#b7791f", "away": "#a0aec0"}
"""The filled parts. The legend and the titles also name them; the remaining part of the frame is idle."""


@dataclass(frozen=True, slots=True)
class ResourceBar:
    """One resource: amounts as numbers in one unit and as texts (`written`), by `total` and the names in `CLUSTER_COLOURS`."""

    resource: str
    amounts: Mapping[str, float]
    written: Mapping[str, str]


def resource_bars(title: str, bars: Sequence[ResourceBar]) -> Picture:
    """Return the picture. The width of each bar is the total of its resource. Names may be any text."""
    left = CHARACTER_WIDTH * max((len(bar.resource) for bar in bars), default=0) + 20
    told = [f"{bar.written['allocated']} of {bar.written['total']}" for bar in bars]
    parts = [text(8, 16, title, kind="strong"), *_cluster_legend(left)]
    for index, (bar, numbers) in enumerate(zip(bars, told, strict=True)):
        top = CLUSTER_HEAD + index * CLUSTER_ROW_HEIGHT
        parts += [text(8, top + 12, bar.resource), *_cluster_bar(bar, left, top)]
        parts.append(text(left + CLUSTER_WIDTH + 10, top + 12, numbers, kind="faint"))
    right = CHARACTER_WIDTH * max(map(len, told), default=0) + 16
    return Picture(title, left + CLUSTER_WIDTH + right, CLUSTER_HEAD + CLUSTER_ROW_HEIGHT * len(bars), tuple(parts))


def _cluster_bar(bar: ResourceBar, left: float, top: float) -> list[str]:
    parts = [
        rectangle(
            left, top, CLUSTER_WIDTH, CLUSTER_BAR_HEIGHT, kind="frame", title=f"{bar.resource}: {bar.written['total']} in all"
        )
    ]
    x = left
    for name, colour in CLUSTER_COLOURS.items():
        width = CLUSTER_WIDTH * bar.amounts[name] / (bar.amounts["total"] or 1)
        if width > 0:
            parts.append(
                rectangle(x, top, width, CLUSTER_BAR_HEIGHT, fill=colour, title=f"{bar.resource}: {bar.written[name]} {name}")
            )
        x += width
    return parts


def _cluster_legend(left: float) -> list[str]:
    parts = []
    for index, (name, colour) in enumerate(CLUSTER_COLOURS.items()):
        parts += [rectangle(left + index * 92, 24, 12, 12, fill=colour), text(left + index * 92 + 17, 34, name)]
    x = left + 2 * 92 + 62
    return [*parts, rectangle(x, 24, 12, 12, kind="frame"), text(x + 17, 34, "idle")]


ROW_HEIGHT: Final = 26
BAR_HEIGHT: Final = 16
WIDTH: Final = 480
HEAD: Final = 46
INDENT: Final = 14
COLOURS: Final[Mapping[str, str]] = {"allocated": "#2b6cb0", "borrowed": "#b7791f"}
"""The filled parts. The legend and the titles also name them; guarantee and deserved are lines, and the limit is the frame."""


@dataclass(frozen=True, slots=True)
class QueueBar:
    """One resource of one queue: its amounts as numbers in one unit, and as texts (`written`, by the name of the amount).

    `limit`, `guarantee` and `deserved` are None when the queue has none. `depth`: the depth of the queue in its tree.
    """

    queue: str
    resource: str
    allocated: float
    guarantee: float | None = None
    deserved: float | None = None
    limit: float | None = None
    depth: int = 0
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def borrowed(self) -> float:
        """The allocated amount beyond the deserved one; 0 for a queue without a deserved amount."""
        return 0.0 if self.deserved is None else max(0.0, self.allocated - self.deserved)


def queue_bars(title: str, bars: Sequence[QueueBar]) -> Picture:
    """Return the picture. Bars of the same resource share a scale, so that queues can be compared. Names may be any text."""
    names = [bar.depth * INDENT + CHARACTER_WIDTH * len(f"{bar.queue} {bar.resource}") for bar in bars]
    left = max(names, default=0) + 20
    right = CHARACTER_WIDTH * max((len(_numbers(bar)) for bar in bars), default=0) + 16
    scales = _scales(bars)
    parts = [text(8, 16, title, kind="strong"), *_legend(left)]
    previous = None
    for index, bar in enumerate(bars):
        top = HEAD + index * ROW_HEIGHT
        indent = 8 + bar.depth * INDENT
        if bar.queue != previous:
            parts.append(text(indent, top + 12, bar.queue))
        parts.append(text(left - 8, top + 12, bar.resource, kind="faint", anchor="end"))
        parts += _bar(bar, left, top, scales[bar.resource])
        parts.append(text(left + WIDTH + 10, top + 12, _numbers(bar), kind="faint"))
        previous = bar.queue
    return Picture(title, left + WIDTH + right, HEAD + ROW_HEIGHT * len(bars) + 8, tuple(parts))


def _scales(bars: Sequence[QueueBar]) -> dict[str, float]:
    """Return the width of one unit, by resource."""
    largest: dict[str, float] = {}
    for bar in bars:
        most = max(bar.allocated, bar.guarantee or 0, bar.deserved or 0, bar.limit or 0)
        largest[bar.resource] = max(largest.get(bar.resource, 0), most)
    return {resource: WIDTH / (most or 1) for resource, most in largest.items()}


def _bar(bar: QueueBar, left: float, top: float, scale: float) -> list[str]:
    told = f"{bar.queue} {bar.resource}: "
    own = bar.allocated - bar.borrowed
    parts = []
    if bar.limit is not None:
        said = f"{told}limit {_said(bar, 'limit')}"
        parts.append(rectangle(left, top, max(bar.limit * scale, 1), BAR_HEIGHT, kind="frame", title=said))
    if own > 0:
        said = f"{told}allocated {_said(bar, 'allocated')}"
        parts.append(rectangle(left, top + 2, own * scale, BAR_HEIGHT - 4, fill=COLOURS["allocated"], title=said))
    if bar.borrowed > 0:
        said, begin = f"{told}borrowed {_said(bar, 'borrowed')}", left + own * scale
        parts.append(rectangle(begin, top + 2, bar.borrowed * scale, BAR_HEIGHT - 4, fill=COLOURS["borrowed"], title=said))
    for name, value, y in (("guarantee", bar.guarantee, top - 3), ("deserved", bar.deserved, top + BAR_HEIGHT / 2)):
        if value is not None:
            x = left + value * scale
            parts.append(line(x, y, x, y + BAR_HEIGHT / 2 + 3, kind="mark", title=f"{told}{name} {_said(bar, name)}"))
    return parts


def _said(bar: QueueBar, name: str) -> str:
    return bar.written.get(name) or f"{getattr(bar, name):g}"


def _numbers(bar: QueueBar) -> str:
    limit = "" if bar.limit is None else f" of {_said(bar, 'limit')}"
    borrowed = f", {_said(bar, 'borrowed')} borrowed" if bar.borrowed > 0 else ""
    return f"{_said(bar, 'allocated')}{limit}{borrowed}"


def _legend(left: float) -> list[str]:
    parts = []
    for index, (name, colour) in enumerate(COLOURS.items()):
        parts += [rectangle(left + index * 96, 24, 12, 12, fill=colour), text(left + index * 96 + 17, 34, name)]
    x = left + 2 * 96
    parts += [line(x + 4, 20, x + 4, 30, kind="mark"), text(x + 12, 34, "guarantee")]
    parts += [line(x + 100, 28, x + 100, 38, kind="mark"), text(x + 108, 34, "deserved")]
    parts += [rectangle(x + 186, 24, 12, 12, kind="frame"), text(x + 203, 34, "limit")]
    return parts
