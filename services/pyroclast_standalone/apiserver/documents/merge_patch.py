"""JSON merge patch (RFC 7396)."""

from __future__ import annotations

from pyroclast_standalone.apiserver.documents.values import Json


def merge(target: Json, patch: Json) -> Json:
    """Return `target` with `patch` merged in. The arguments are not modified. Unchanged values are shared with `target`."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merge(result.get(name), value)
        else:
            result[name] = value
    return result
