"""HTML of handles for a notebook, without scripts and external resources. Every text is escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from pyroclast_client.cards import COLOURS, badge, bar, card
from pyroclast_client.states import Explanation, JobStatus


def job_html(kind: str, name: str, status: JobStatus, explanation: Explanation | None) -> str:
    """Return the HTML of a Job: its phase, a bar of its pods, and why it waits."""
    counts = {each: int(getattr(status, each)) for each in COLOURS}
    why = escape(explanation.summary if explanation is not None else status.message)
    return card(kind, name, status.phase, f"{bar(counts)}<div>{why}</div>")


def sweep_html(name: str, statuses: Iterable[JobStatus]) -> str:
    """Return the HTML of a sweep: the pods of all its Jobs in one bar."""
    every = list(statuses)
    counts = {each: sum(int(getattr(status, each)) for status in every) for each in COLOURS}
    phases = ", ".join(sorted({status.phase for status in every}))
    return card("Sweep", name, phases, bar(counts))


def flow_html(name: str, phase: str, entries: Mapping[str, str], messages: Mapping[str, str]) -> str:
    """Return the HTML of a flow: its entries with their phases."""
    rows = "".join(
        f"<tr><td>{escape(entry)}</td><td>{badge(state)}</td><td>{escape(messages.get(entry, ''))}</td></tr>"
        for entry, state in sorted(entries.items())
    )
    return card("Flow", name, phase, f"<table>{rows}</table>")
