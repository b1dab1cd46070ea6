"""Builds a JobFlow from the unfinished entries of a failed flow, with the same templates and values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pyroclast.api.types import JOB_FLOWS
from pyroclast_client.documents import Document
from pyroclast_client.errors import Usage

_NAME = re.compile(r"(?P<stem>.*?)(-r(?P<number>\d+))?-(?P<suffix>[^-]+)")


def remaining_flow(flow: Mapping[str, Any], phases: Mapping[str, str]) -> Document:
    """Return a JobFlow with the entries that have not completed. The failed flow owns the new one.

    `phases` maps names of entries to their phases.

    Raises:
        Usage: all entries have completed, or a choice depends on the outcome of a completed entry.
    """
    metadata, entries = flow["metadata"], flow["spec"].get("flows") or ()
    completed = {entry["name"] for entry in entries if phases.get(entry["name"]) == "Completed"}
    done = {name for entry in entries if (name := entry["name"]) in completed and _is_settled(entry, completed)}
    gone = done | _left_out(entries, phases, done)
    left = [_without(entry, done, gone) for entry in entries if entry["name"] not in gone]
    if not left:
        raise Usage(f"retry: all entries of JobFlow {metadata['name']} have completed, so nothing is left to do")
    owner = {"apiVersion": JOB_FLOWS.api_version, "kind": JOB_FLOWS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    found = _NAME.fullmatch(metadata["name"])
    if found is None:
        raise Usage(f"retry: JobFlow {metadata['name']} was not made by this client; submit a flow of the entries that are left")
    name = f"{found['stem']}-r{int(found['number'] or 0) + 1}-{found['suffix']}"
    return {
        "apiVersion": JOB_FLOWS.api_version,
        "kind": JOB_FLOWS.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "annotations": {
                key: value for key, value in (metadata.get("annotations") or {}).items() if key.startswith("client.")
            },
            "ownerReferences": [owner],
        },
        "spec": {**flow["spec"], "flows": left},
    }


def _is_settled(entry: Mapping[str, Any], completed: AbstractSet[str]) -> bool:
    """Whether a completed entry needs no new run. A switch on an entry that runs again must choose again."""
    return "switch" not in entry or entry["switch"]["on"] in completed


def _left_out(entries: Sequence[Mapping[str, Any]], phases: Mapping[str, str], done: AbstractSet[str]) -> set[str]:
    """Return the entries that completed choices have skipped, and the entries that depend only on those."""
    listed: set[str] = set()
    for entry in entries:
        if entry["name"] in done or (entry.get("if") or {}).get("target") in done:
            listed.update(entry.get("else") or ())
        if entry["name"] in done and (switch := entry.get("switch")):
            listed.update(switch.get("default") or (), *(case.get("entries") or () for case in switch.get("cases") or ()))
    skipped = {entry["name"]: entry for entry in entries if phases.get(entry["name"]) == "Skipped"}
    found = listed & skipped.keys()
    while more := {name for name, entry in skipped.items() if name not in found and (waits := _waits(entry)) and waits <= found}:
        found |= more
    return found


def _waits(entry: Mapping[str, Any]) -> set[str]:
    asked = (entry.get("if") or {}).get("target"), (entry.get("switch") or {}).get("on")
    return {*((entry.get("dependsOn") or {}).get("targets") or ()), *filter(None, asked)}


def _without(entry: Mapping[str, Any], done: AbstractSet[str], gone: AbstractSet[str]) -> Document:
    """Return the entry without dependencies on completed entries, and without choices of the removed entries."""
    kept = dict(entry)
    depends = dict(kept.get("dependsOn") or {})
    targets = [target for target in depends.get("targets") or () if target not in gone]
    is_met = depends.get("strategy") == "any" and len(targets) < len(depends.get("targets") or ())
    kept.pop("dependsOn", None)
    if targets and not is_met:
        kept["dependsOn"] = {**depends, "targets": targets}
    condition = kept.get("if") or {}
    if condition.get("target") in done:
        if "Completed" not in (condition.get("phase") or ["Completed"]):
            raise Usage(
                f"retry: entry {entry['name']} runs only if {condition['target']} fails, which has completed; run the flow anew"
            )
        kept.pop("if")
        kept.pop("else", None)  # the entries of `else` stay skipped
    elif any(f'targets["{name}"]' in condition.get("expression", "") for name in done):
        raise Usage(f"retry: the condition of entry {entry['name']} asks for entries that have completed; run the flow anew")
    if kept.get("else"):
        kept["else"] = [name for name in kept["else"] if name not in gone]
    if switch := kept.get("switch"):
        if switch["on"] in done:
            raise Usage(f"retry: {entry['name']} has not chosen by {switch['on']}, which has completed; run the flow anew")
        cases = [{**case, "entries": [name for name in case["entries"] if name not in gone]} for case in switch["cases"]]
        default = [name for name in switch.get("default") or () if name not in gone]
        kept["switch"] = {**switch, "cases": cases, "default": default}
    return kept
