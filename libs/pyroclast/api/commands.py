"""Command: a single instruction to the controller of a Job or Queue, which deletes the Command after executing it."""

from __future__ import annotations

from pyroclast.api import types
from pyroclast.api.shared import CustomKind, OwnerReference
from pyroclast.api.wire import ApiObject


class Command(ApiObject):
    """A Command is a single instruction to the controller of an object."""

    action: str | None = None
    """The action, such as AbortJob, ResumeJob, OpenQueue, CloseQueue."""
    target: OwnerReference | None = None
    """The object to which the action applies."""
    reason: str | None = None
    """The reason of the action, as one word."""
    message: str | None = None
    """The reason of the action, as text."""


KIND = CustomKind(types.COMMANDS, Command, has_status=False)


def authorization(uid: str, action: str) -> str:
    """Return the value of the annotation `keys.AUTHORIZED_FOR`: the user of a Command may do `action` to the target `uid`."""
    return f"{uid}/{action}"
