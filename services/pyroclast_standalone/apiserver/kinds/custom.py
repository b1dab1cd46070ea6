"""The strategy of a custom resource, from its definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pyroclast.resources.go_text import go_quote, go_value
from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, invalid
from pyroclast_standalone.apiserver.documents import jsonpath, tables
from pyroclast_standalone.apiserver.documents.metadata import check_metadata, check_metadata_update
from pyroclast_standalone.apiserver.documents.schema import Node
from pyroclast_standalone.apiserver.documents.structural import Structural, Verdict
from pyroclast_standalone.apiserver.kinds.builtins import Subresource
from pyroclast_standalone.apiserver.kinds.strategy import Strategy

_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_METADATA_CHECKS: Final = 3  # checks of a change, each of which reports its errors
_MAX_INT32: Final = 2**31 - 1


_GO_TYPES: Final = {str: "string", float: "float64", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}


def _nested(path: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at a dotted path. None when it is missing."""
    value: Any = document
    for step in path.lstrip(".").split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


class CustomStrategy(Strategy):
    """One served version of a CustomResourceDefinition."""

    is_custom = True
    has_generation = True
    needs_version = True

    def __init__(self, definition: Mapping[str, Any], version: str) -> None:
        """Compile the schema of a version. Raises StopIteration: the definition has no such version."""
        spec = definition["spec"]
        served = next(each for each in spec["versions"] if each["name"] == version)
        kinds = spec["names"]
        self.group, self.version, self.kind, self.plural = spec["group"], version, kinds["kind"], kinds["plural"]
        self.namespaced = spec["scope"] == "Namespaced"
        self.singular = kinds.get("singular") or self.kind.lower()
        self.short_names = tuple(kinds.get("shortNames") or ())
        self.categories = tuple(kinds.get("categories") or ())
        self.verbs = _VERBS
        subresources = served.get("subresources") or {}
        self.has_status = subresources.get("status") is not None
        self.scale: Mapping[str, Any] | None = subresources.get("scale")
        own = [Subresource("status", self.kind)] if self.has_status else []
        if self.scale is not None:
            own.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
        self.subresources = tuple(own)
        self.structural = Structural((served.get("schema") or {}).get("openAPIV3Schema"))
        self.fields = {
            path.lstrip("."): jsonpath.reader(path)
            for each in served.get("selectableFields") or ()
            if (path := each.get("jsonPath", ""))
        }
        self.columns, self._readers = tables.custom_columns(served.get("additionalPrinterColumns") or ())

    @property
    def schema(self) -> Node:
        """The schema for patches and apply."""
        node = self.structural.node
        node.splits_status = self.has_status
        node.kept_from_status = ("f:metadata", "f:spec")
        node.blank = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {}}
        return node

    def decode(self, document: dict[str, Any], untouched: Collection[str] = (), *, is_applied: bool = False) -> list[str]:  # noqa: ARG002
        """Prune and default the object at every level, as the schema may have changed since it was stored; see `Strategy`."""
        dropped = self.structural.prune(document)
        self.structural.default(document, is_applied=is_applied)
        return [f"unknown field {go_quote(path)}" for path in dropped]

    def default(self, document: dict[str, Any]) -> None:
        """Set the defaults of `document` in place."""
        self.structural.default(document)

    def prepare_create(self, document: dict[str, Any]) -> None:
        """Remove the status of a new object if the kind has a status subresource."""
        if self.has_status:
            document.pop("status", None)
        document["metadata"]["generation"] = 1

    def prepare_update(self, new: dict[str, Any], old: Mapping[str, Any], *, subresource: str = "") -> None:
        """Restore the fields that this endpoint may not change, and increase the generation if needed."""
        if subresource == "status":
            own = {"status": new["status"]} if new.get("status") is not None else {}
            kept = {field: new["metadata"][field] for field in ("managedFields", "resourceVersion") if field in new["metadata"]}
            rest = {field: value for field, value in old.items() if field != "status"}
            new.clear()
            new.update({**rest, "metadata": {**old["metadata"], **kept}, **own})
            return
        if self.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        generation = old["metadata"].get("generation") or 0
        changed = {**new, "metadata": None} != {**old, "metadata": None}
        new["metadata"]["generation"] = generation + changed

    def validate(self, document: dict[str, Any]) -> Verdict:
        """Return all faults of a new object."""
        errors = check_metadata(document["metadata"], namespaced=self.namespaced, name_rule=names.dns_subdomain)
        verdict = self.structural.validate(document, found=errors)
        verdict.errors += self._check_scale(document, "specReplicasPath", "statusReplicasPath")
        return verdict

    def validate_update(self, new: dict[str, Any], old: dict[str, Any], *, subresource: str = "") -> Verdict:
        """Return all faults of a change of an object."""
        errors = check_metadata_update(new["metadata"], old["metadata"], times=_METADATA_CHECKS)
        verdict = self.structural.validate(new, old, subresource=subresource, found=errors)
        paths = ("statusReplicasPath",) if subresource == "status" else ("specReplicasPath", "statusReplicasPath")
        verdict.errors += self._check_scale(new, *paths)
        return verdict

    def _check_scale(self, document: Mapping[str, Any], *paths: str) -> list[FieldError]:
        errors = []
        for path in paths:
            at = str((self.scale or {}).get(path) or "")
            found = _nested(at, document) if at else None
            if found is None:
                continue
            if found.__class__ is not int:
                text = f"{at} accessor error: {go_value(found)} is of the type {_GO_TYPES[type(found)]}, expected int64"
                errors.append(invalid(at, 0, text))
            elif found < 0:
                errors.append(invalid(at, found, "should be a non-negative integer"))
            elif found > _MAX_INT32:
                errors.append(invalid(at, found, f"should be less than or equal to {_MAX_INT32}"))
        return errors

    def cells(self, document: Mapping[str, Any], now: float) -> list[Any]:
        """Return the cells of the table row of an object, one for each column."""
        return [document["metadata"]["name"], *(read(document, now) for read in self._readers)]
