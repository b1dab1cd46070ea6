"""The named object of a command, and the Command objects that request suspend, resume, open and close from a controller."""

from __future__ import annotations

from typing import Any

from pyroclast.api.enums import Action
from pyroclast.api.types import COMMANDS, Key, ResourceType
from pyroclast_cli.flags import Context, Failure


def required_key(context: Context, message: str) -> Key:
    """Return the key of the object that the flags name; without a name, the command fails with the message."""
    if not context.text("name"):
        raise Failure(message)
    return Key(str(context.values.get("namespace", "")), context.text("name"))


async def issue(context: Context, kind: ResourceType, key: Key, action: Action, *, namespace: str) -> None:
    """Create in `namespace` a Command that requests `action` for an object."""
    target = await context.client.get(kind, key)
    reference: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": key.name,
        "uid": target["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    command = {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {
            "generateName": f"{key.name}-{str(action).lower()}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": str(action),
        "target": reference,
    }
    await context.client.create(COMMANDS, command, namespace=namespace)
