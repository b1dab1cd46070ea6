"""`python -m tests.bench.past_usage [--plot FILE]`: two queues of one weight that both want the whole cluster, hour by hour.

Queue `busy` used all of it on the day before, queue `fresh` nothing. Cache, sessions and actions are those of the scheduler, what
queues held in the past is worked out as the recorder does, and a Job runs for an hour as soon as it is placed. A line per setting
tells which part of the cluster `fresh` had.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.past_usage import written_past_usage
from pyroclast_recorder.following.past_usage import Used, past_usage
from pyroclast_scheduler.session.configuration import parse
from tests.bench import scheduler as bench

HOUR: Final = 3600
HALF_LIFE_HOURS: Final = 24
HOURS: Final = 72
WEIGHTS: Final = (0.0, 1.0, 3.0)
NODES: Final = 10
CPU: Final = 16
POD_CPU: Final = 4
SLOTS: Final = NODES * CPU // POD_CPU
QUEUES: Final = ("busy", "fresh")
_EPOCH: Final = 1_800_000_000 // HOUR * HOUR
_CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins:
  - name: drf
    arguments: {{pastUsageWeight: {weight}}}
  - name: predicates
  - name: proportion
    arguments: {{pastUsageWeight: {weight}}}
  - name: nodeorder
"""


@dataclass
class Course:
    """`weight`: of past usage; `parts`: of the cluster that `fresh` had, hour by hour."""

    weight: float
    parts: list[float] = field(default_factory=list)

    @property
    def whole(self) -> float:
        """What `fresh` had of it all."""
        return sum(self.parts) / len(self.parts)


class _World(bench.VirtualCluster):
    def __init__(self, weight: float) -> None:
        configuration = parse(_CONFIGURATION.format(weight=weight), actions=bench.ACTIONS, plugins=bench.PLUGINS)
        super().__init__(configuration, (), [CPU] * NODES)
        self._numbers = count()
        self._queues: dict[str, records.Queue] = {}
        self._waiting: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self._running: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self._used = [Used(_EPOCH - back * HOUR, "busy", "ann", "cpu", NODES * CPU * 1000 * HOUR) for back in range(1, 25)]

    def hour(self, number: int) -> Mapping[str, int]:
        """Let an hour pass; how many pods of each queue ran in it."""
        at = _EPOCH + number * HOUR
        for queue in QUEUES:
            for name in self._running[queue]:
                self.end(name)
            self._running[queue].clear()
        self._tell(at)
        for queue in QUEUES:
            while len(self._waiting[queue]) < SLOTS:
                name = f"{queue}-{next(self._numbers):05}"
                self.submit(name, 1, POD_CPU, queue_name=queue, at=0)
                self._waiting[queue].add(name)
        for name in self.session(at - bench.EPOCH, period=at)[1]:
            queue = name.partition("-")[0]
            self._waiting[queue].discard(name)
            self._running[queue].add(name)
        for queue, running in self._running.items():
            self._used.append(Used(at, queue, "ann" if queue == "busy" else "bob", "cpu", len(running) * POD_CPU * 1000 * HOUR))
        return {queue: len(running) for queue, running in self._running.items()}

    def _tell(self, at: int) -> None:
        found = past_usage(self._used, at, HALF_LIFE_HOURS * HOUR)
        for name in QUEUES:
            body = msgspec.to_builtins(bench.queue(name))
            if name in found:
                body["metadata"]["annotations"] = {keys.QUEUE_PAST_USAGE: written_past_usage(found[name])}
            queue = msgspec.convert(body, records.Queue)
            self.cache.queue_changed(self._queues.get(name), queue)
            self._queues[name] = queue


def live(weight: float, hours: int) -> Course:
    """What `fresh` had, hour by hour."""
    world, course = _World(weight), Course(weight)
    for number in range(hours):
        course.parts.append(world.hour(number)["fresh"] / SLOTS)
    return course


_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 90, 56, 30, 46
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.axis{stroke:#999;stroke-width:1;fill:none}.fresh{fill:#1f4e79;fill-opacity:.55}"
    ".busy{fill:#c55a11;fill-opacity:.35}.background{fill:#fff}"
)


def draw(courses: Sequence[Course]) -> str:
    """An SVG with a panel for each setting: which part of the cluster each queue had, by the hour."""
    height = _TOP + len(courses) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 12} {height}" role="img">',
        f"<title>Parts of the cluster that two queues had</title><style>{_STYLE}</style>",
        '<rect class="background" width="100%" height="100%"/>',
        *_key("busy", "busy, used all of yesterday", _LEFT),
        *_key("fresh", "fresh", _LEFT + 220),
    ]
    for i, course in enumerate(courses):
        parts += _panel(course, _TOP + 12 + i * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _key(name: str, text: str, left: int) -> Iterable[str]:
    yield f'<rect class="{name}" x="{left}" y="6" width="14" height="10"/><text x="{left + 20}" y="15">{text}</text>'


def _panel(course: Course, top: int) -> Iterable[str]:
    bottom, width = top + _HEIGHT, _WIDTH / len(course.parts)
    steps = "".join(f"V{bottom - part * _HEIGHT:.1f}h{width:.2f}" for part in course.parts)
    yield f'<text x="{_LEFT}" y="{top - 5}">pastUsageWeight {course.weight:g}: fresh has {course.whole:.0%} of all hours</text>'
    yield f'<rect class="busy" x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}"/>'
    yield f'<path class="fresh" d="M{_LEFT} {bottom}{steps}V{bottom}Z"/>'
    for part in (0, 0.5, 1):
        at = bottom - part * _HEIGHT
        yield f'<text x="{_LEFT - 6}" y="{at + 4:.0f}" text-anchor="end">{part:.0%}</text>'
    for hour in range(0, len(course.parts) + 1, 12):
        yield f'<text x="{_LEFT + hour * width:.0f}" y="{bottom + 14}" text-anchor="middle">{hour} h</text>'
    yield f'<path class="axis" d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}"/>'


def main() -> int:
    """Print a line per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS)
    parser.add_argument("--plot", type=Path, help="write the plot into this file")
    options = parser.parse_args()
    courses = [live(weight, options.hours) for weight in options.weights]
    for course in courses:
        by_day = [course.parts[at : at + 12] for at in range(0, len(course.parts), 12)]
        shown = "  ".join(f"{sum(some) / len(some):4.0%}" for some in by_day)
        sys.stdout.write(f"pastUsageWeight {course.weight:<4g} fresh has {course.whole:4.0%} of all; by 12 hours: {shown}\n")
    if options.plot:
        options.plot.write_text(draw(courses))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
