"""The plot of locked and idle nodes over a day, as SVG, from the figures of `tests.bench.reservation`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

_SHOWN: Final = ("no reservation", "no estimates", "honest estimates", "estimates wrong by two")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 760, 96, 48, 34, 44
_NODES: Final = 100
_HOURS: Final = 24
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.axis{stroke:#999;stroke-width:1}.locked{fill:#c55a11;fill-opacity:.35}"
    ".idle{fill:none;stroke:#1f4e79;stroke-width:1.2}.background{fill:#fff}"
)


def draw(found: Iterable[Mapping[str, Any]]) -> str:
    """An SVG with a panel for each of the runs that are shown: nodes locked, and the idle part of the cluster as nodes."""
    runs = {run["name"]: run for run in found}
    shown = [runs[name] for name in _SHOWN if name in runs]
    height = _TOP + len(shown) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 12} {height}" role="img">',
        f"<title>Nodes locked and idle over a day</title><style>{_STYLE}</style>",
        '<rect class="background" width="100%" height="100%"/>',
        f'<rect class="locked" x="{_LEFT}" y="8" width="14" height="10"/><text x="{_LEFT + 20}" y="17">locked nodes</text>',
        f'<path class="idle" d="M{_LEFT + 120} 13h14"/><text x="{_LEFT + 140}" y="17">idle, in nodes of average size</text>',
    ]
    for i, run in enumerate(shown):
        parts += _panel(run, _TOP + 10 + i * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _panel(run: Mapping[str, Any], top: int) -> list[str]:
    bottom = top + _HEIGHT
    samples: Sequence[Sequence[float]] = run["samples"]
    locked = [(time, nodes) for time, nodes, _ in samples]
    idle = [(time, part * _NODES) for time, _, part in samples]
    title = f"{run['name']}: {run['started']} of {run['large']} large jobs start, utilisation {run['utilisation']:.3f}"
    parts = [f'<text x="{_LEFT}" y="{top - 4}">{escape(title)}</text>']
    parts += [
        f'<text x="{_LEFT - 6}" y="{_y(nodes, bottom) + 4:.0f}" text-anchor="end">{nodes}</text>'
        f'<path class="axis" d="M{_LEFT - 4} {_y(nodes, bottom):.0f}h4"/>'
        for nodes in (0, 50, 100)
    ]
    parts += [
        f'<text x="{_x(hour * 3600):.0f}" y="{bottom + 14}" text-anchor="middle">{hour} h</text>'
        for hour in range(0, _HOURS + 1, 4)
    ]
    parts.append(f'<path class="locked" d="M{_x(0):.1f} {bottom}{_steps(locked, bottom)}V{bottom}Z"/>')
    parts.append(f'<path class="idle" d="M{_x(0):.1f} {_y(idle[0][1], bottom):.1f}{_steps(idle, bottom)}"/>')
    parts.append(f'<path class="axis" fill="none" d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}"/>')
    return parts


def _steps(points: Iterable[tuple[float, float]], bottom: int) -> str:
    """A line of steps; moments at which nothing changes are left out."""
    drawn: list[str] = []
    before = None
    last = 0.0
    for time, value in points:
        last = time
        if value != before:
            drawn.append(f"H{_x(time):.1f}V{_y(value, bottom):.1f}")
            before = value
    return "".join(drawn) + f"H{_x(last):.1f}"


def _x(seconds: float) -> float:
    return _LEFT + _WIDTH * seconds / 3600 / _HOURS


def _y(nodes: float, bottom: int) -> float:
    return bottom - _HEIGHT * nodes / _NODES
