"""The rules of a built-in kind as a value, which a module of each API group provides. Common rules are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, invalid, required, unsupported
from pyroclast.rules.names import NameRule
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders
from pyroclast_standalone.apiserver.documents.tables import Column
from pyroclast_standalone.times import since


def child(path: str, field: str) -> str:
    """Return the path of a field. The path of the whole object is empty."""
    return f"{path}.{field}" if path else field


def choice(holder: Mapping[str, Any], field: str, supported: Sequence[str], path: str) -> list[FieldError]:
    """Check that `field` is set and is one of `supported`."""
    value = holder.get(field)
    if not value:
        return [required(child(path, field))]
    return [] if value in supported else [unsupported(child(path, field), value, supported)]


def optional_choice(holder: Mapping[str, Any], field: str, supported: Sequence[str], path: str) -> list[FieldError]:
    """Check that `field`, if it is set, is one of `supported`."""
    value = holder.get(field)
    return [] if value is None or value in supported else [unsupported(child(path, field), value, supported)]


def named(value: str, rule: NameRule, path: str) -> list[FieldError]:
    """Return the faults of a name by `rule`."""
    return [invalid(path, value, sentence) for sentence in rule(value)]


def immutable(new: Mapping[str, Any], old: Mapping[str, Any], field: str, path: str) -> list[FieldError]:
    """Check that `field` does not change."""
    if new.get(field) == old.get(field):
        return []
    return [invalid(path, new.get(field), "field is immutable")]


Default: TypeAlias = Callable[[dict[str, Any]], None]
Check: TypeAlias = Callable[[dict[str, Any]], list[FieldError]]
UpdateCheck: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], list[FieldError]]
Cells: TypeAlias = Callable[[Mapping[str, Any], float], list[Any]]

NAME = Column("Name", format="name", doc="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.name")
AGE = Column("Age", doc="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.creationTimestamp")


def age_of(document: Mapping[str, Any], now: float) -> str:
    """Return the cell of the column `AGE`."""
    return since(document["metadata"].get("creationTimestamp"), now)


_SYMBOLS = {"In": "in", "NotIn": "notin"}


def _requirement(expression: Mapping[str, Any]) -> str:
    key, operator = str(expression.get("key", "")), expression.get("operator", "")
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {_SYMBOLS.get(operator, operator)} ({','.join(sorted(expression.get('values') or ()))})"


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a LabelSelector as text. A plain map of labels is treated as a selector."""
    if not selector:
        return "<none>"
    labels = selector.get("matchLabels", {}) if {"matchLabels", "matchExpressions"} & set(selector) else selector
    parts = [(key, f"{key}={value}") for key, value in (labels or {}).items()]
    parts += [(each.get("key", ""), _requirement(each)) for each in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(parts)) or "<none>"


@dataclass(frozen=True, slots=True)
class FieldPart:
    """An endpoint that changes a part of the spec: `keep` restores all other fields, and `check` validates the change."""

    keep: Callable[[dict[str, Any], Mapping[str, Any]], None]
    check: UpdateCheck
    reaches_metadata: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a kind.

    Attributes:
        name: the rule for names.
        default: sets defaults.
        check: validates a new object, and also a changed one unless `check_update` is set.
        check_update: validates a change through the main endpoint.
        check_status: validates a change of the status.
        prepare: sets the fields that only the server sets on create.
        prepare_status: restores, before a change of the status, fields that may never change.
        parts: by endpoint, the parts of the spec that the endpoint changes.
        fields: the selectable fields.
        kept_from_status: fields besides the spec that a status write cannot change, as keys of field sets.
        generation: whether `metadata.generation` counts changes of the spec.
        keeps_status: whether a new object may have a status.
        deprecation: the warning in every answer about the kind.
        cells: returns the cells of a row, if the data table does not define them.
    """

    name: names.NameRule = names.dns_subdomain
    default: Default = lambda _document: None
    check: Check = lambda _document: []
    check_update: UpdateCheck | None = None
    check_status: UpdateCheck = lambda _new, _old: []
    prepare: Default = lambda _document: None
    prepare_update: Callable[[dict[str, Any], Mapping[str, Any]], None] | None = None
    prepare_status: Callable[[dict[str, Any], Mapping[str, Any]], None] | None = None
    warnings: Callable[[Mapping[str, Any], Mapping[str, Any] | None], list[str]] | None = None
    parts: Mapping[str, FieldPart] = field(default_factory=dict)
    fields: FieldReaders | None = None
    kept_from_status: Sequence[str] = ()
    generation: bool = False
    keeps_status: bool = False
    needs_version: bool = False
    deletes_to_object: bool = False
    deprecation: str = ""
    cells: Cells | None = None
    conditions: Callable[[Mapping[str, Any]], list[dict[str, Any]]] | None = None
