"""Rules for the network topology of a Job, a partition or a PodGroup: its limit is given by number or by name, not both."""

from __future__ import annotations

from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.values import Json, mapping, text

BOTH_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def check_topology(topology: Json, path: str) -> FieldError | None:
    """Return the error of a topology (at `path`) that gives its limit twice; None otherwise."""
    given = mapping(topology)
    name = text(given.get("highestTierName"))
    if given.get("highestTierAllowed") is None or not name:
        return None
    return invalid(f"{path}.highestTierName", name, f"{BOTH_TIERS}; keep one of them")
