"""HTML parts that show a handle in a notebook. Every text in them is escaped. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

COLOURS: Final[Mapping[str, str]] = {
    "succeeded": "#2e7d32",
    "running": "#1565c0",
    "pending": "#9e9e9e",
    "failed": "#c62828",
}
GOOD: Final = frozenset({"Completed", "Succeed", "Succeeded"})
BAD: Final = frozenset({"Failed", "Terminated", "Aborted"})


def card(kind: str, name: str, phase: str, content: str) -> str:
    """Return a box with a title. `content` is HTML."""
    title = f"<b>{escape(kind)} {escape(name)}</b> {badge(phase)}"
    return f'<div style="border:1px solid #ccc;border-radius:4px;padding:8px;max-width:48em">{title}{content}</div>'


def badge(phase: str) -> str:
    """Return the HTML of a phase, in the colour of the phase."""
    colour = COLOURS["succeeded"] if phase in GOOD else COLOURS["failed"] if phase in BAD else COLOURS["running"]
    return f'<span style="color:{colour}">{escape(phase)}</span>'


def bar(counts: Mapping[str, int]) -> str:
    """Return a bar with a section for each state, and the counts in words."""
    total = sum(counts.values()) or 1
    parts = "".join(
        f'<div style="background:{COLOURS[name]};width:{100 * count / total:.1f}%"></div>'
        for name, count in counts.items()
        if count
    )
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no pod yet"
    return f'<div style="display:flex;height:8px;background:#eee;margin:4px 0">{parts}</div><div>{escape(words)}</div>'
