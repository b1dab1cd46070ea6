"""Draws a timeline: a lane per pod, on it a bar per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["Lane", "Span", "timeline"]

LANE_HEIGHT: Final = 22
BAR_HEIGHT: Final = 14
CHARACTER_WIDTH: Final = 7.3
WIDTH: Final = 720
TICKS: Final = 5
HEAD: Final = 46
COLOURS: Final[Mapping[str, str]] = {"waiting": "#b7791f", "starting": "#6b46c1", "running": "#2b6cb0"}
"""The stages in the order in which a pod goes through them. The legend and each bar's title name them too."""
STYLE: Final = (
    "text{font:12px ui-monospace,monospace;fill:#1a202c}line{stroke:#a0aec0}"
    "@media(prefers-color-scheme:dark){text{fill:#e2e8f0}line{stroke:#4a5568}}"
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stage from `begin` to `end`, in seconds since the timeline begins."""

    stage: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    """The stages of one pod."""

    name: str
    spans: tuple[Span, ...]


def timeline(title: str, lanes: Sequence[Lane]) -> str:
    """A complete SVG document. Names may be any text.

    Raises:
        KeyError: a span has a stage that is not one of `COLOURS`.
    """
    left = CHARACTER_WIDTH * max((len(lane.name) for lane in lanes), default=0) + 16
    whole = max((span.end for lane in lanes for span in lane.spans), default=0) or 1
    scale = WIDTH / whole
    height = HEAD + LANE_HEIGHT * len(lanes) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {left + WIDTH + 24:.0f} {height}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text x="8" y="16">{escape(title)}</text>',
        *_legend(left),
        *_ticks(left, whole, height),
    ]
    for index, lane in enumerate(lanes):
        top = HEAD + index * LANE_HEIGHT
        parts.append(f'<text x="8" y="{top + 12}">{escape(lane.name)}</text>')
        parts += [_bar(lane.name, span, left + span.begin * scale, top, (span.end - span.begin) * scale) for span in lane.spans]
    return "".join([*parts, "</svg>\n"])


def _bar(name: str, span: Span, x: float, top: float, width: float) -> str:
    told = f"{name}: {span.stage} from {span.begin:g} s to {span.end:g} s"
    return (
        f'<rect x="{x:.1f}" y="{top}" width="{max(width, 1):.1f}" height="{BAR_HEIGHT}" fill="{COLOURS[span.stage]}">'
        f"<title>{escape(told)}</title></rect>"
    )


def _legend(left: float) -> list[str]:
    parts = []
    for index, (stage, colour) in enumerate(COLOURS.items()):
        x = left + index * 100
        parts.append(f'<rect x="{x:.0f}" y="24" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17:.0f}" y="34">{stage}</text>')
    return parts


def _ticks(left: float, whole: float, height: float) -> list[str]:
    parts = []
    for index in range(TICKS + 1):
        x = left + WIDTH * index / TICKS
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{HEAD - 4}" y2="{height - 20}"/>')
        parts.append(f'<text x="{x:.0f}" y="{height - 6}" text-anchor="middle">{whole * index / TICKS:.3g} s</text>')
    return parts
