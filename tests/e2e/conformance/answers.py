"""Finding one's way in answers. Pure."""

from __future__ import annotations

import contextlib
import json
from typing import Any


def parsed(content: bytes) -> Any:
    """The JSON value of a body, or its text."""
    if content[:1] in (b"{", b"["):
        with contextlib.suppress(ValueError):
            return json.loads(content)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"<{len(content)} bytes>"


def find(value: Any, path: str) -> Any:
    """The value at a dotted path; a number goes into a list, `name=x` to the item of a list, `~` stands for a dot in a key."""
    for part in path.split(".") if path else []:
        if isinstance(value, list):
            if "=" in part:
                key, _, wanted = part.partition("=")
                value = next((item for item in value if str(item.get(key)) == wanted), None)
            else:
                value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part.replace("~", "."))
        else:
            return None
    return value


def without(value: Any, keys: set[str]) -> Any:
    """`value` without these keys, however deep they lie."""
    match value:
        case dict():
            return {key: without(item, keys) for key, item in value.items() if key not in keys}
        case list():
            return [without(item, keys) for item in value]
        case _:
            return value
