"""Rules for deleting a flow: it must not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.keys import FORCE_DELETE
from pyroclast.rules.jobflows.update import jobs_made
from pyroclast.rules.lookups import COMPLETE_PHASES
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import ALLOWED, Verdict, denied


def validate_delete(flow: Mapping[str, Any], name: str) -> Verdict:
    """Return the verdict on deleting the flow of that name. A flow without Jobs, or that is already being deleted, may be
    deleted.
    """
    metadata = mapping(flow.get("metadata"))
    if text(mapping(metadata.get("annotations")).get(FORCE_DELETE)) == "true" or metadata.get("deletionTimestamp"):
        return ALLOWED
    phase = text(mapping(mapping(flow.get("status")).get("state")).get("phase"))
    if phase in COMPLETE_PHASES or not jobs_made(flow):
        return ALLOWED
    return denied(
        f"jobflow {name} can not be deleted because it is {phase or 'Pending'}, not complete; "
        f'wait until it is, or annotate it with {FORCE_DELETE}: "true" first'
    )
