"""The rules of a built-in kind as a value: what a module per API group fills in, and nothing that all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyroclast.rules import names
from pyroclast_standalone.apiserver.documents.errors import FieldError
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders
from pyroclast_standalone.apiserver.documents.tables import Column
from pyroclast_standalone.times import since

__all__ = [
    "AGE",
    "NAME",
    "Cells",
    "Check",
    "Default",
    "FieldPart",
    "Rules",
    "UpdateCheck",
    "age_of",
    "selector_text",
]

Default: TypeAlias = Callable[[dict[str, Any]], None]
Check: TypeAlias = Callable[[dict[str, Any]], list[FieldError]]
UpdateCheck: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], list[FieldError]]
Cells: TypeAlias = Callable[[Mapping[str, Any], float], list[Any]]

NAME = Column(
    "Name",
    format="name",
    doc="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.name",
)
AGE = Column("Age", doc="io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.creationTimestamp")


def age_of(document: Mapping[str, Any], now: float) -> str:
    """The cell of `AGE`."""
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
    """A LabelSelector as text; a plain map of labels counts as one."""
    if not selector:
        return "<none>"
    labels = selector.get("matchLabels", {}) if {"matchLabels", "matchExpressions"} & set(selector) else selector
    parts = [(key, f"{key}={value}") for key, value in (labels or {}).items()]
    parts += [(each.get("key", ""), _requirement(each)) for each in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(parts)) or "<none>"


def _nothing(_document: dict[str, Any]) -> None:
    """No defaults."""


def _no_errors(_document: dict[str, Any]) -> list[FieldError]:
    return []


def _no_change_errors(_new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    return []


@dataclass(frozen=True, slots=True)
class FieldPart:
    """What an endpoint changes that reaches a part of the spec only: `keep` puts everything else back, `check` validates."""

    keep: Callable[[dict[str, Any], Mapping[str, Any]], None]
    check: UpdateCheck
    reaches_metadata: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is special to a kind.

    Attributes:
        name: Form of names.
        default: Fills in defaults.
        check: Validates a new object, and a changed one unless `check_update` says more.
        check_update: Validates a change of what the main endpoint may change.
        check_status: Validates a change of status.
        prepare: Sets what only the server sets on create.
        prepare_status: Puts back, before a change of status, what not even that may change.
        parts: By endpoint, those that change a part of the spec.
        fields: Selectable fields.
        kept_from_status: What else than the spec a change of status does not reach, as field sets name it.
        generation: Whether changes of `spec` are counted.
        keeps_status: Whether a new object may bring its status.
        deprecation: What every answer about the kind warns of.
        cells: Of its rows, where the table of data does not tell them.
    """

    name: names.NameRule = names.dns_subdomain
    default: Default = _nothing
    check: Check = _no_errors
    check_update: UpdateCheck | None = None
    check_status: UpdateCheck = _no_change_errors
    prepare: Default = _nothing
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
