"""How handles look in a notebook: HTML without scripts and outside resources, every text escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from pyroclast_client.states import Explanation, JobStatus

__all__ = ["explanation_html", "flow_html", "job_html", "sweep_html"]

COLOURS: Final[Mapping[str, str]] = {
    "succeeded": "#2e7d32",
    "running": "#1565c0",
    "pending": "#9e9e9e",
    "failed": "#c62828",
}
GOOD: Final = frozenset({"Completed", "Succeed", "Succeeded"})
BAD: Final = frozenset({"Failed", "Terminated", "Aborted"})


def job_html(kind: str, name: str, status: JobStatus, explanation: Explanation | None) -> str:
    """A Job: its phase, a bar of its pods, and why it waits."""
    counts = {each: int(getattr(status, each)) for each in COLOURS}
    why = escape(explanation.summary if explanation is not None else status.message)
    return _card(kind, name, status.phase, f"{_bar(counts)}<div>{why}</div>")


def sweep_html(name: str, statuses: Iterable[JobStatus]) -> str:
    """A sweep: the pods of all its Jobs in one bar."""
    every = list(statuses)
    counts = {each: sum(int(getattr(status, each)) for status in every) for each in COLOURS}
    phases = ", ".join(sorted({status.phase for status in every}))
    return _card("Sweep", name, phases, _bar(counts))


def flow_html(name: str, phase: str, entries: Mapping[str, str], messages: Mapping[str, str]) -> str:
    """A flow: its entries with their phases."""
    rows = "".join(
        f"<tr><td>{escape(entry)}</td><td>{_badge(state)}</td><td>{escape(messages.get(entry, ''))}</td></tr>"
        for entry, state in sorted(entries.items())
    )
    return _card("Flow", name, phase, f"<table>{rows}</table>")


def explanation_html(explanation: Explanation) -> str:
    """Why a Job waits."""
    return _card("Job", explanation.job, explanation.phase, f"<pre>{escape(str(explanation))}</pre>")


def _card(kind: str, name: str, phase: str, content: str) -> str:
    title = f"<b>{escape(kind)} {escape(name)}</b> {_badge(phase)}"
    return f'<div style="border:1px solid #ccc;border-radius:4px;padding:8px;max-width:48em">{title}{content}</div>'


def _badge(phase: str) -> str:
    colour = COLOURS["succeeded"] if phase in GOOD else COLOURS["failed"] if phase in BAD else COLOURS["running"]
    return f'<span style="color:{colour}">{escape(phase)}</span>'


def _bar(counts: Mapping[str, int]) -> str:
    """A bar with a part for each state, and the numbers in words."""
    total = sum(counts.values()) or 1
    parts = "".join(
        f'<div style="background:{COLOURS[name]};width:{100 * count / total:.1f}%"></div>'
        for name, count in counts.items()
        if count
    )
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no pod yet"
    return f'<div style="display:flex;height:8px;background:#eee;margin:4px 0">{parts}</div><div>{escape(words)}</div>'
