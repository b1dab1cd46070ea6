"""What is left to do of a flow that failed, as another JobFlow with the same templates and values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyroclast.api.types import JOB_FLOWS
from pyroclast_client.documents import Document
from pyroclast_client.errors import Usage

__all__ = ["remaining_flow"]

_NAME = re.compile(r"(?P<stem>.*?)(-r(?P<number>\d+))?-(?P<suffix>[^-]+)")


def remaining_flow(flow: Mapping[str, Any], phases: Mapping[str, str]) -> Document:
    """The JobFlow of the entries that have not completed, owned by the one before. `phases`: of entries, by their names.

    Raises:
        Usage: all entries have completed, or a choice depends on the outcome of one that has.
    """
    metadata, entries = flow["metadata"], flow["spec"].get("flows") or ()
    done = {entry["name"] for entry in entries if phases.get(entry["name"]) == "Completed"}
    left = [_without(entry, done) for entry in entries if entry["name"] not in done]
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


def _without(entry: Mapping[str, Any], done: set[str]) -> Document:
    """The entry without what waits for entries that have completed."""
    kept = dict(entry)
    depends = dict(kept.get("dependsOn") or {})
    targets = [target for target in depends.get("targets") or () if target not in done]
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
        kept.pop("else", None)  # its entries are skipped for good
    elif any(f'targets["{name}"]' in condition.get("expression", "") for name in done):
        raise Usage(f"retry: the condition of entry {entry['name']} asks for entries that have completed; run the flow anew")
    return kept
