"""The strategy of built-in kinds: their common behaviour, which calls the rules of each kind."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any, Final

import yaml

from pyroclast_standalone.apiserver.documents import schema
from pyroclast_standalone.apiserver.documents.metadata import check_finalizer_names, check_metadata, check_metadata_update
from pyroclast_standalone.apiserver.documents.structural import Verdict
from pyroclast_standalone.apiserver.documents.tables import Column
from pyroclast_standalone.apiserver.documents.typed import codec_of
from pyroclast_standalone.apiserver.kinds.builtins import Builtin
from pyroclast_standalone.apiserver.kinds.pod_defaults import default_template
from pyroclast_standalone.apiserver.kinds.printed import printed
from pyroclast_standalone.apiserver.kinds.rules import Cells, Rules
from pyroclast_standalone.apiserver.kinds.strategy import Strategy

_PODS: Final = "pods"


@cache
def _table() -> Mapping[str, Sequence[tuple[Sequence[str], Any]]]:
    """Return the paths and values by kind. The path of a pod template has no value."""
    text = resources.files(__package__).joinpath("data", "defaults.yaml").read_text()
    return {
        kind: [(value.split("."), None) if path == _PODS else (path.split("."), value) for path, value in entries.items()]
        for kind, entries in yaml.load(text, Loader=yaml.CSafeLoader).items()
    }


def fill_in(document: dict[str, Any], group: str, kind: str) -> None:
    """Set the defaults of a kind in an object, in place."""
    for steps, value in _table().get(f"{group}/{kind}" if group else kind, ()):
        _set(document, steps, value)


def _set(holder: Any, steps: Sequence[str], value: Any) -> None:  # noqa: ANN401  # any JSON
    first, *rest = steps
    if first == "*":
        for each in holder if isinstance(holder, list) else ():
            _set(each, rest, value)
    elif rest:
        if holder.get(first) is not None:
            _set(holder[first], rest, value)
    elif value is None:
        if holder.get(first) is not None:
            default_template(holder[first])
    elif holder.get(first) is None:
        holder[first] = copy.copy(value)


_CHECKS: Final = 3  # how often most kinds check changed metadata; each check reports its errors
_OBJECT_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_ANY_FINALIZER: Final = {"admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy"}
"""Groups whose objects may have finalizers without a qualified name."""


class BuiltinStrategy(Strategy):
    """The strategy of a built-in kind, whose fields are fixed."""

    def __init__(self, resource: Builtin, rules: Rules) -> None:
        self.group, self.version, self.kind, self.plural = resource.group, resource.version, resource.kind, resource.plural
        self.namespaced = resource.namespaced
        self.singular = resource.singular
        self.short_names, self.categories = resource.short_names, resource.categories
        self.verbs, self.created_by_put = resource.verbs, resource.created_by_put
        self.subresources = resource.subresources
        self.fields = rules.fields
        self.has_generation = rules.generation
        self.has_status = any(each.name == "status" for each in resource.subresources)
        self.needs_version = rules.needs_version
        self.deletes_to_object = rules.deletes_to_object
        self.deprecation = rules.deprecation
        self.rules = rules
        self._names_finalizers = self.group not in _ANY_FINALIZER and self.kind != "Event"
        self._schema: schema.Node | None = None
        self._codec = codec_of(schema.definition_name(self.group, self.version, self.kind))

    @cached_property
    def _printer(self) -> tuple[Sequence[Column], Cells]:
        columns, cells = printed(self.group, self.kind)
        return columns, self.rules.cells or cells

    @property
    def columns(self) -> Sequence[Column]:  # type: ignore[override]
        """The columns of the table that `kubectl get` prints for this kind."""
        return self._printer[0]

    @property
    def schema(self) -> schema.Node:
        """The schema of the objects of this kind."""
        if self._schema is None:
            node = schema.builtin_schema(self.group, self.version, self.kind)
            if node is None:
                raise LookupError(f"{self.kind} of {self.api_version} has no definition")
            node.splits_status = self.has_status
            node.kept_from_status = ("f:spec", *self.rules.kept_from_status)
            node.blank = self._codec.zero()
            self._schema = node
        return self._schema

    def decode(self, document: dict[str, Any], untouched: Collection[str] = (), *, is_applied: bool = False) -> list[str]:  # noqa: ARG002
        """Normalise a parsed body, see `Strategy.decode`."""
        metadata = document.get("metadata")
        forgets_owners = isinstance(metadata, dict) and metadata.get("managedFields") == []
        problems = self._codec.decode(document, untouched)
        if forgets_owners:
            document["metadata"]["managedFields"] = []
        self.default(document)
        return problems

    def default(self, document: dict[str, Any]) -> None:
        """Set the defaults of `document` in place."""
        fill_in(document, self.group, self.kind)
        self.rules.default(document)

    def prepare_create(self, document: dict[str, Any]) -> None:
        """Clear the status if the kind has a status subresource, then prepare the object by the rules of the kind."""
        if self.has_status and not self.rules.keeps_status:
            document["status"] = {}
            self._codec.refill(document)
        if self.has_generation:
            document["metadata"]["generation"] = 1
        self.rules.prepare(document)

    def prepare_update(self, new: dict[str, Any], old: Mapping[str, Any], *, subresource: str = "") -> None:
        """Restore the fields that this endpoint may not change, and increase the generation if needed."""
        if subresource == "status":
            for field in set(new) | set(old):
                if field not in {"status", "metadata", "apiVersion", "kind"}:
                    _restore(new, old, field)
            _restore(new["metadata"], old["metadata"], "ownerReferences")
            if self.rules.prepare_status is not None:
                self.rules.prepare_status(new, old)
            return
        if self.has_status:
            _restore(new, old, "status")
        part = self.rules.parts.get(subresource)
        if part is not None:
            part.keep(new, old)
            for field in () if part.reaches_metadata else _OBJECT_METADATA:
                _restore(new["metadata"], old["metadata"], field)
        elif self.rules.prepare_update is not None:
            self.rules.prepare_update(new, old)
        if self.has_generation:
            generation = old["metadata"].get("generation") or 0
            new["metadata"]["generation"] = generation + (new.get("spec") != old.get("spec"))

    def validate(self, document: dict[str, Any]) -> Verdict:
        """Return all faults of a new object."""
        rules = self.rules
        errors = check_metadata(document["metadata"], namespaced=self.namespaced, name_rule=rules.name)
        if self._names_finalizers:
            errors += check_finalizer_names(document["metadata"])
        errors += rules.check(document)
        return Verdict(errors)

    def validate_update(self, new: dict[str, Any], old: dict[str, Any], *, subresource: str = "") -> Verdict:
        """Return all faults of a change of an object."""
        times = _CHECKS + (self.group in {"", "rbac.authorization.k8s.io"})
        if subresource == "status":
            errors = check_metadata_update(new["metadata"], old["metadata"], times=_CHECKS)
            if self._names_finalizers:
                errors += check_finalizer_names(new["metadata"])
            return Verdict([*errors, *self.rules.check_status(new, old)])
        part = self.rules.parts.get(subresource)
        if part is not None:
            return Verdict([*check_metadata_update(new["metadata"], old["metadata"], times=2), *part.check(new, old)])
        errors = check_metadata_update(new["metadata"], old["metadata"], times=times)
        if self._names_finalizers:
            errors += check_finalizer_names(new["metadata"]) * (times - 2)
        rules = self.rules
        return Verdict([*errors, *(rules.check_update(new, old) if rules.check_update else rules.check(new))])

    def warnings(self, document: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        """Return the warnings about an object, for the `Warning` headers."""
        return self.rules.warnings(document, old) if self.rules.warnings else []

    def cells(self, document: Mapping[str, Any], now: float) -> list[Any]:
        """Return the cells of the table row of an object, one for each column."""
        return self._printer[1](document, now)

    def conditions(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the conditions of the table row of an object."""
        return self.rules.conditions(document) if self.rules.conditions else []


def _restore(new: dict[str, Any], old: Mapping[str, Any], field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)
