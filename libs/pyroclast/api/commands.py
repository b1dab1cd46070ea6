"""Command: a one-shot order to the controller of a Job or Queue, which deletes it when it has been carried out."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.kinds import CustomKind
from pyroclast.api.shared import OwnerReference
from pyroclast.api.wire import ApiObject

__all__ = ["KIND", "Command"]


class Command(ApiObject):
    """A Command orders something to be done to an object, once."""

    action: str | None = None
    """What to do, such as AbortJob, ResumeJob, OpenQueue, CloseQueue."""
    target: OwnerReference | None = None
    """The object to act on."""
    reason: str | None = None
    """Why, as one word."""
    message: str | None = None
    """Why, for people."""


KIND = CustomKind(types.COMMANDS, Command, has_status=False)
