"""Rules of Queue: defaults, and the checks for creation, changes and deletion."""

from __future__ import annotations

from pyroclast.rules.queues.fields import default, is_recorder, validate_recorded
from pyroclast.rules.queues.validation import QueueLimits, validate_create, validate_delete, validate_update

__all__ = ["QueueLimits", "default", "is_recorder", "validate_create", "validate_delete", "validate_recorded", "validate_update"]
