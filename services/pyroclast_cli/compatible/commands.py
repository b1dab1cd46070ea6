"""The Command objects with which suspend, resume, open and close are requested from a controller."""

from __future__ import annotations

from typing import Any

from pyroclast.api.enums import Action
from pyroclast.api.types import COMMANDS, Key, ResourceType
from pyroclast_cli.flags import Context


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
