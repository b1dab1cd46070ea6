"""Rules of JobFlow: the entries have no cycle, and an entry that has started does not change."""

from __future__ import annotations

from pyroclast.rules.jobflows.creation import validate_create
from pyroclast.rules.jobflows.update import validate_delete, validate_update

__all__ = ["validate_create", "validate_delete", "validate_update"]
