"""The entries of a flow as a tree below their dependencies, as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pyroclast.api.enums import FlowReason
from pyroclast.api.types import JOBS
from pyroclast.api.waiting_codes import NEVER, NOT_NOW
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.pictures.flow_graph import FlowNode, depths_of, flow_graph
from pyroclast.pictures.svg import Picture
from pyroclast.views.contract import Row
from pyroclast.views.jobs import Waiter, WaitingCause, seconds_since
from pyroclast.views.readable import human_duration

ICONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Completed", "Succeed"), "✔"),
    **dict.fromkeys(("Pending", "Waiting"), "…"),
    **dict.fromkeys(("Failed", "Terminated", "Aborted"), "✘"),
    "Running": "▶",
    "Skipped": "↷",
}
NOT_YET: Final = "Waiting"
OPEN: Final = frozenset({FlowReason.DEPENDENCIES, FlowReason.CHOICE_OPEN, FlowReason.UNKNOWN_TARGET, FlowReason.CYCLE})
"""Reasons of entries that wait for other entries."""


def open_entries(flow: Mapping[str, Any]) -> list[Waiter]:
    """Return the entries of a flow that wait for other entries, in the order of the flow, as the Jobs that they will be.

    A cause is final if a dependency is not an entry, or there is a cycle. Queue and pods are only known from a JobTemplate.
    """
    metadata, conditions = flow["metadata"], (flow.get("status") or {}).get("conditions") or {}
    waiters = []
    for entry in (flow.get("spec") or {}).get("flows") or ():
        name = f"{metadata['name']}-{entry['name']}"
        said = conditions.get(name) or {}
        if said.get("phase") != NOT_YET or said.get("reason") not in OPEN:
            continue
        is_final = said["reason"] in {FlowReason.UNKNOWN_TARGET, FlowReason.CYCLE}
        text = said.get("message") or f"waits for {', '.join(_targets(entry)) or 'other entries'}"
        sentence = f"{NEVER if is_final else NOT_NOW}: entry {entry['name']} of flow {metadata['name']}: {text}"
        created = metadata["creationTimestamp"]
        cause = WaitingCause(PendingReason.WAITS_FOR_ENTRY, sentence, created, is_final)
        waiters.append(Waiter(JOBS.qualified, metadata["namespace"], name, created, cause))
    return waiters


def flow_rows(flow: Mapping[str, Any], now: float, codes: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return a row for each entry, by depth and then in the order of the flow. `codes`: those of waiting Jobs, by name."""
    code_of = {**(codes or {}), **{each.name: str(PendingReason.WAITS_FOR_ENTRY) for each in open_entries(flow)}}
    entries = {each["name"]: each for each in (flow.get("spec") or {}).get("flows") or ()}
    status = flow.get("status") or {}
    conditions = _conditions(status)
    outputs = {row["name"]: row["outputs"] for row in status.get("jobStatusList") or () if row.get("outputs")}
    depths = depths_of({name: _targets(entry) for name, entry in entries.items()})
    prefix = flow["metadata"]["name"]
    rows = [
        _row(prefix, entry, conditions, depths[name], now)
        | {"code": code_of.get(f"{prefix}-{name}"), "outputs": _outputs(f"{prefix}-{name}", entry, outputs)}
        for name, entry in entries.items()
    ]
    return sorted(rows, key=lambda row: int(row["depth"]))


def _conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the states of Jobs and entries by name. In a large flow, only the row of a Job may have its state."""
    names = {"phase": "state", "createTime": "startTimestamp", "completionTime": "endTimestamp"}
    listed = status.get("jobStatusList") or ()
    from_rows = {row["name"]: {name: row.get(field) for name, field in names.items()} for row in listed}
    return {**from_rows, **(status.get("conditions") or {})}


def _row(flow: str, entry: Mapping[str, Any], conditions: Mapping[str, Any], depth: int, now: float) -> dict[str, Any]:
    name = f"{flow}-{entry['name']}"
    said: Mapping[str, Any] = conditions.get(name) or {}
    rounds = [each for other, each in conditions.items() if other.startswith(f"{name}-") and other[len(name) + 1 :].isdigit()]
    created = said.get("createTime") or min((each["createTime"] for each in rounds if each.get("createTime")), default="")
    ended = said.get("completionTime")
    if not ended and rounds and said.get("phase") != "Running":
        ended = max(each.get("completionTime") or "" for each in rounds)
    elapsed = None
    if created:
        elapsed = seconds_since(created, datetime.fromisoformat(ended).timestamp() if ended else now)
    return {
        "name": entry["name"],
        "depth": depth,
        "phase": said.get("phase") or NOT_YET,
        "message": said.get("message", ""),
        "elapsedSeconds": elapsed,
        "dependsOn": _targets(entry),
        "rounds": len(rounds),
        "roundsRunning": sum(each.get("phase") == "Running" for each in rounds),
    }


def _outputs(name: str, entry: Mapping[str, Any], outputs: Mapping[str, str]) -> str | None:
    """Return what an entry put out, as JSON; a list by round for a loop."""
    if not entry.get("for"):
        return outputs.get(name)
    own = {int(number): each for job, each in outputs.items() if (number := job.removeprefix(f"{name}-")).isdecimal()}
    return f"[{','.join(own.get(index, 'null') for index in range(max(own) + 1))}]" if own else None


def _targets(entry: Mapping[str, Any]) -> list[str]:
    """Return the entries for which an entry waits: its targets, and those whose outputs it reads."""
    from pyroclast.lifecycle.flow.checks import reads_of  # noqa: PLC0415 - imports the engine of expressions

    return list(dict.fromkeys((*((entry.get("dependsOn") or {}).get("targets") or ()), *reads_of(entry))))


def flow_tree_lines(flow: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the tree as text: an icon and a word for each state, why waiting entries wait, and the rounds of a loop."""
    metadata, status = flow["metadata"], flow.get("status") or {}
    phase = (status.get("state") or {}).get("phase") or "Pending"
    width = max((2 * row["depth"] + len(row["name"]) for row in rows), default=0)
    lines = [f"{ICONS.get(phase, '?')} {metadata['namespace']}/{metadata['name']} {phase}"]
    for row in rows:
        label = ("  " * row["depth"] + row["name"]).ljust(width)
        elapsed = human_duration(row["elapsedSeconds"]) if row["elapsedSeconds"] is not None else "-"
        rounds = f"{row['rounds']} rounds, {row['roundsRunning']} running" if row["rounds"] else ""
        outputs = f"→ {_shortened(row['outputs'])}" if row["outputs"] else ""
        notes = "; ".join(filter(None, (row["code"], rounds, row["message"], outputs)))
        lines.append(f"  {ICONS.get(row['phase'], '?')} {label}  {row['phase']:<10} {elapsed:>6}  {notes}".rstrip())
    return lines


_LONGEST_OUTPUT: Final = 60
"""The most characters of outputs in a line of the tree and in a box of the graph; the document has all."""


def _shortened(outputs: str) -> str:
    return outputs if len(outputs) <= _LONGEST_OUTPUT else f"{outputs[: _LONGEST_OUTPUT - 1]}…"


def draw_flow(title: str, rows: Iterable[Row]) -> Picture:
    """Draw a flow from the rows of `flow_rows`."""
    shown = list(rows)
    notes = [
        " ".join(filter(None, (f"{row['rounds']} rounds" if row["rounds"] else "", _shortened(row["outputs"] or ""))))
        for row in shown
    ]
    nodes = [
        FlowNode(row["name"], row["phase"], tuple(row["dependsOn"]), row["elapsedSeconds"], note)
        for row, note in zip(shown, notes, strict=True)
    ]
    elapsed = {row["name"]: human_duration(row["elapsedSeconds"]) for row in shown if row["elapsedSeconds"] is not None}
    return flow_graph(title, nodes, elapsed)
