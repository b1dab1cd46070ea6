"""The form of objects in messages of the API server: with the server's internal names of fields, and with all fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_ABBREVIATIONS: Final = {
    "apiGroup": "APIGroup",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "seLinuxOptions": "SELinuxOptions",
}
_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "capabilities": ("add", "drop"),
    "seLinuxOptions": ("user", "role", "type", "level"),
    "seccompProfile": ("type", "localhostProfile"),
    "appArmorProfile": ("type", "localhostProfile"),
    "windowsOptions": ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName", "hostProcess"),
}
_TEXTS: Final = frozenset({"user", "role", "type", "level"})
"""Fields that are texts, and so are never null."""


def internal_form(value: Mapping[str, Any], fields: Sequence[str], *, empty: str | None = None) -> dict[str, Any]:
    """Return `value` with all of `fields`; a missing field is `empty`, or an empty text."""
    body = {}
    for field in fields:
        shown = value.get(field, "" if field in _TEXTS else empty)
        is_object = field in _PARTS and isinstance(shown, dict)
        name = _ABBREVIATIONS.get(field, field[:1].upper() + field[1:])
        body[name] = internal_form(shown, _PARTS[field]) if is_object else shown
    return body
