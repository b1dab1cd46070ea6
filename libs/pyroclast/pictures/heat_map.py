"""Draws nodes as a heat map: a cell for each node, in groups such as the domains of a network tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyroclast.pictures.svg import CHARACTER_WIDTH, Picture, linked, rectangle, text

CELL: Final = 34
GAP: Final = 4
IN_A_ROW: Final = 20
BETWEEN: Final = 18
LEGEND_WIDTH: Final = 410
HEAD: Final = 46
NAME_HEIGHT: Final = 20
SHADES: Final = ("#fc8181", "#f6ad55", "#faf089", "#9ae6b4", "#68d391")
"""The colours from nothing free to everything free. Each cell also shows its percentage as a number."""

AWAY: Final = "#a0aec0"
"""The colour of a node that accepts no pods."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A node. `share`: the free share of the shown resource, from 0 to 1; None when the node has no such resource or accepts no
    pods.

    `told`: the text of the cell's title. `is_outlined`: whether the node belongs to the subject of the picture, such as a Job.
    `is_kept`: whether the node is reserved. `link`: the URL of its page.
    """

    name: str
    share: float | None
    told: str = ""
    is_outlined: bool = False
    is_kept: bool = False
    link: str = ""


def heat_map(title: str, groups: Mapping[str, Sequence[Cell]]) -> Picture:
    """Return the heat map, with several groups beside each other in a row. Names may be any text."""
    parts = [text(8, 16, title, kind="strong"), *_legend()]
    widest = max(LEGEND_WIDTH, CHARACTER_WIDTH * len(title) + 24)
    left, top, bottom = 8.0, float(HEAD), float(HEAD)
    for name, cells in groups.items():
        width = max(min(len(cells), IN_A_ROW) * (CELL + GAP), CHARACTER_WIDTH * len(name)) + BETWEEN
        if left > 8 and left + width > 8 + IN_A_ROW * (CELL + GAP) + BETWEEN:
            left, top = 8.0, bottom
        parts.append(text(left, top + 13, name))
        for index, cell in enumerate(cells):
            x = left + index % IN_A_ROW * (CELL + GAP)
            parts += _cell(cell, x, top + NAME_HEIGHT + index // IN_A_ROW * (CELL + GAP))
        bottom = max(bottom, top + NAME_HEIGHT + -(-len(cells) // IN_A_ROW) * (CELL + GAP) + 6)
        left += width
        widest = max(widest, left)
    has_links = any(cell.link for cells in groups.values() for cell in cells)
    return Picture(title, widest, bottom + 4, tuple(parts), has_links)


def _cell(cell: Cell, x: float, y: float) -> list[str]:
    shade = AWAY if cell.share is None else SHADES[min(len(SHADES) - 1, max(0, int(cell.share * len(SHADES))))]
    said = "–" if cell.share is None else f"{cell.share * 100:.0f}"
    told = f"{cell.name}: {cell.told}" if cell.told else cell.name
    kind = "critical" if cell.is_outlined else "kept" if cell.is_kept else ""
    box = rectangle(x, y, CELL, CELL, fill=shade, title=told, kind=kind, rounded=3)
    return [linked(cell.link, box + text(x + CELL / 2, y + CELL / 2 + 4, said, kind="cell", anchor="middle"))]


def _legend() -> list[str]:
    parts = [text(8, 35, "% free", kind="faint")]
    for index, shade in enumerate(SHADES):
        parts.append(rectangle(64 + index * 44, 24, 12, 12, fill=shade))
        parts.append(text(80 + index * 44, 35, str(index * 20)))
    x = 64 + len(SHADES) * 44
    parts += [rectangle(x, 24, 12, 12, fill=AWAY), text(x + 16, 35, "away")]
    return [*parts, rectangle(x + 60, 24, 12, 12, fill="none", kind="kept"), text(x + 76, 35, "kept")]
