"""Plain strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .documents.schema import ANY
from .documents.structural import Verdict
from .kinds.strategy import Strategy, Subresource


class PlainCustom(Strategy):
    is_custom = True

    @property
    def schema(self):
        return ANY

    def decode(self, document: dict[str, Any]) -> list[str]:
        return []

    def default(self, document: dict[str, Any]) -> None:
        pass

    def prepare_create(self, document: dict[str, Any]) -> None:
        if self.has_status:
            document.pop("status", None)
        document["metadata"]["generation"] = 1

    def prepare_update(self, new: dict[str, Any], old: Mapping[str, Any], *, subresource: str = "") -> None:
        if subresource == "status":
            metadata = {k: v for k, v in old["metadata"].items()}
            status = new.get("status")
            new.clear()
            new.update(old)
            new["metadata"] = metadata
            if status is not None:
                new["status"] = status
        elif self.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if {k: v for k, v in new.items() if k not in ("metadata", "status")} != {
            k: v for k, v in old.items() if k not in ("metadata", "status")
        }:
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1

    def validate(self, document: dict[str, Any]) -> Verdict:
        return Verdict()

    def validate_update(self, new: dict[str, Any], old: dict[str, Any], *, subresource: str = "") -> Verdict:
        return Verdict()

    def cells(self, document, now):
        return [document["metadata"]["name"]]


def custom(definition: Mapping[str, Any], version: str) -> Strategy:
    spec = definition["spec"]
    names = spec["names"]
    entry = next(v for v in spec["versions"] if v["name"] == version)
    s = PlainCustom()
    s.group, s.version, s.kind, s.plural = spec["group"], version, names["kind"], names["plural"]
    s.namespaced = spec["scope"] == "Namespaced"
    s.singular = names.get("singular", names["kind"].lower())
    s.short_names = tuple(names.get("shortNames", ()))
    s.categories = tuple(names.get("categories", ()))
    s.verbs = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
    if "status" in entry.get("subresources", {}):
        s.subresources += (Subresource("status", names["kind"]),)
        s.has_status = True
    if "scale" in entry.get("subresources", {}):
        s.subresources += (Subresource("scale", "Scale", group="autoscaling", version="v1"),)
    s.needs_version = True
    s.has_generation = True
    return s
