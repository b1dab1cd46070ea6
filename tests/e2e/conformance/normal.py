"""Takes out of an answer what may differ between two servers that behave the same: names, times, versions. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_GENERATED = re.compile(r"(?<=-|_)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_AGE = re.compile(r"\d+(s|m|h|d|y)(\d+(s|m|h|d))?|<invalid>")
_CLUSTER_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_VERSION = re.compile(r"(resource ?[vV]ersion\W{1,8}|in the precondition \(|in record \()(\d+)")
_CURRENT = re.compile(r"(?<=current: )\d+")
_GO_DIFFERENCE = re.compile(r"\n@@ -\d+.*", re.DOTALL)  # two objects as Go prints them
_NOISE = frozenset({"kube-root-ca.crt"})  # made by kube-controller-manager in each namespace
_FREE = frozenset({"storageVersionHash"})  # says nothing to a client but that it changed
_CREDENTIAL = "authentication.kubernetes.io/credential-id"  # of the certificate that was used


class Normaliser:
    """For the answers of one case: the first resourceVersion that is seen becomes `<rv1>`, and so on, likewise uids."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._versions: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def versions(self) -> list[str]:
        """The names of the resourceVersions seen so far, the oldest version first."""
        return [name for _, name in sorted((int(version), name) for version, name in self._versions.items() if version.isdigit())]

    def value(self, value: Any, key: str = "", parent: str = "") -> Any:
        """A JSON value without what may differ."""
        match value:
            case dict():
                return self._mapping(value, key)
            case list():
                kept = [item for item in value if not _is_noise(item)]
                if key == "managedFields":  # in the order of their seconds
                    kept.sort(key=lambda owner: [str(owner.get(part)) for part in ("operation", "manager", "subresource")])
                return [self.value(item, key, parent) for item in kept]
            case str():
                return self._string(value, key, parent)
            case int() if key in ("retryAfterSeconds", "remainingItemCount") or not isinstance(value, bool):
                return value
            case _:
                return value

    def text(self, text: str) -> str:
        """A text without what may differ."""
        text = text.replace(self._namespace, "<ns>")
        text = _GO_DIFFERENCE.sub("<difference>", text)
        text = _UID.sub(lambda found: self._uid(found[0]), text)
        text = _TIME.sub("<time>", text)
        text = _ADDRESS.sub("<server>", text)
        text = _CLUSTER_ADDRESS.sub("<ip>", text)
        text = _CURRENT.sub("<now>", text)
        text = _GENERATED.sub("<random>", text)
        return _VERSION.sub(lambda found: found[1] + self._versions.get(found[2], found[2]), text)

    def _mapping(self, value: Mapping[str, Any], key: str) -> dict[str, Any]:
        kind = str(value.get("kind") or "")
        if _CREDENTIAL in (value.get("extra") or {}):
            value = {name: item for name, item in value.items() if name != "extra"}
        if kind == "Status":
            value = _without_order(value)
        if kind == "Table":
            value = without_prose(value)
        if kind == "Table" or kind.endswith("List"):
            value = {**value, "metadata": _list_metadata(value.get("metadata"))}
        if kind == "APIResourceList":
            value = {**value, "resources": sorted(value.get("resources") or [], key=lambda resource: resource["name"])}
        if kind == "SelfSubjectRulesReview":
            value = {**value, "status": _in_order(value.get("status") or {})}
        return {
            self.text(name): self.value(item, name.rpartition(".")[2], key) for name, item in value.items() if name not in _FREE
        }

    def _string(self, value: str, key: str, parent: str) -> str:
        if key == "resourceVersion" and value:
            return self._version(value) if value != "0" else "0"
        if key == "continue" and value:
            return "<token>"
        if key == "token" and parent == "status":
            return "<token>"
        if key in ("hash", "serverRelativeURL"):
            return re.sub(r"hash=\w+", "hash=<hash>", value)
        return self.text(value)

    def _version(self, version: str) -> str:
        return self._versions.setdefault(version, f"<rv{len(self._versions) + 1}>")

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid{len(self._uids) + 1}>")


def _is_noise(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    metadata = item.get("metadata") or (item.get("object") or {}).get("metadata") or {}
    return isinstance(metadata, dict) and metadata.get("name") in _NOISE


def _in_order(status: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of a review in an order of their own: a real server goes through the bindings as a hash table gives them."""
    return {name: sorted(item, key=_canonical) if isinstance(item, list) else item for name, item in status.items()}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _without_order(status: Mapping[str, Any]) -> dict[str, Any]:
    """A refusal whose causes are sorted: a real server finds them in the order of a hash table."""
    details = status.get("details") or {}
    causes = details.get("causes") or []
    if len(causes) < 2:
        return dict(status)
    message, said = str(status.get("message")), [f"{cause.get('field')}: {cause.get('message')}" for cause in causes]
    head, bracket, rest = message.partition("[")
    if bracket and len(rest) == len(", ".join(said)) + 1 and all(text in rest for text in said):
        message = f"{head}[<causes>]"
    ordered = sorted(causes, key=lambda cause: (str(cause.get("field")), str(cause.get("message"))))
    return {**status, "message": message, "details": {**details, "causes": ordered}}


def _list_metadata(metadata: Any) -> Any:
    """Versions of lists count what others write too."""
    if isinstance(metadata, dict) and "resourceVersion" in metadata:
        return {**metadata, "resourceVersion": "<now>" if metadata["resourceVersion"] else ""}
    return metadata


def without_prose(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without ages, and without the descriptions of columns, which are prose."""
    rows = []
    for row in table.get("rows") or []:
        cells = [("<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell) for cell in row.get("cells") or []]
        rows.append({**row, "cells": cells})
    columns = table.get("columnDefinitions")
    if columns:
        columns = [{key: value for key, value in column.items() if key != "description"} for column in columns]
    return {**table, "columnDefinitions": columns, "rows": rows}
