"""Rules of JobFlow: a graph without circles, and a flow that runs keeps what it has started."""

from __future__ import annotations

from pyroclast.rules.jobflows.creation import validate_create
from pyroclast.rules.jobflows.deletion import validate_delete
from pyroclast.rules.jobflows.update import validate_update

__all__ = ["validate_create", "validate_delete", "validate_update"]
