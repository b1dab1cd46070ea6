"""Applies a patch of defaults to a value, for rules that check an object with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.verdicts import Patch


def applied(document: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """Return `document` with the `add` operations of `patch`. Only the changed values are copied; the other values are shared."""
    result = dict(document)
    for operation in patch:
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        target: Any = result
        for part in parents:
            key: Any = int(part) if isinstance(target, list) else part
            target[key] = list(target[key]) if isinstance(target[key], list) else dict(target[key])
            target = target[key]
        target[last] = operation["value"]
    return result
