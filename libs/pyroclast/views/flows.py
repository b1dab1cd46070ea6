"""The entries of a flow below those that they wait for, with the state of each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pyroclast.pictures.layers import depths_of
from pyroclast.views.human_durations import human_duration
from pyroclast.views.jobs import seconds_since

__all__ = ["ICONS", "flow_rows", "flow_tree_lines"]

ICONS: Final[Mapping[str, str]] = {
    "Completed": "✔",
    "Succeed": "✔",
    "Running": "▶",
    "Pending": "…",
    "Waiting": "…",
    "Skipped": "↷",
    "Failed": "✘",
    "Terminated": "✘",
    "Aborted": "✘",
}
NOT_YET: Final = "Waiting"


def flow_rows(flow: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """A row per entry, by depth and then in the order of the flow. `now`: seconds since the epoch."""
    entries = {each["name"]: each for each in (flow.get("spec") or {}).get("flows") or ()}
    conditions = _conditions(flow.get("status") or {})
    depths = depths_of({name: _targets(entry) for name, entry in entries.items()})
    found = [_row(flow["metadata"]["name"], entry, conditions, depths[name], now) for name, entry in entries.items()]
    return sorted(found, key=lambda row: int(row["depth"]))


def _conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of Jobs and entries, by name. Of a large flow only the row of a Job may say how that is."""
    told = {
        row["name"]: {
            "phase": row.get("state"),
            "createTime": row.get("startTimestamp"),
            "completionTime": row.get("endTimestamp"),
        }
        for row in status.get("jobStatusList") or ()
    }
    return {**told, **(status.get("conditions") or {})}


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


def _targets(entry: Mapping[str, Any]) -> list[str]:
    return list((entry.get("dependsOn") or {}).get("targets") or ())


def flow_tree_lines(flow: Mapping[str, Any], now: float) -> list[str]:
    """The tree as text: an icon and a word for each state; the rounds of a loop are counted."""
    metadata, status = flow["metadata"], flow.get("status") or {}
    phase = (status.get("state") or {}).get("phase") or "Pending"
    rows = flow_rows(flow, now)
    width = max((2 * row["depth"] + len(row["name"]) for row in rows), default=0)
    lines = [f"{ICONS.get(phase, '?')} {metadata['namespace']}/{metadata['name']} {phase}"]
    for row in rows:
        label = ("  " * row["depth"] + row["name"]).ljust(width)
        elapsed = human_duration(row["elapsedSeconds"]) if row["elapsedSeconds"] is not None else "-"
        rounds = f"{row['rounds']} rounds, {row['roundsRunning']} running" if row["rounds"] else ""
        told = "; ".join(filter(None, (rounds, row["message"])))
        lines.append(f"  {ICONS.get(row['phase'], '?')} {label}  {row['phase']:<10} {elapsed:>6}  {told}".rstrip())
    return lines
