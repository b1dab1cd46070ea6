"""What the write pipeline asks a kind: one class that every kind fills in.

The order of a create is decode → default → prepare_create → validate; of an update decode → default → prepare_update →
validate_update. All of them work on plain JSON objects and change only what they are given first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.schema import Node
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders
from pyroclast_standalone.apiserver.documents.structural import Verdict
from pyroclast_standalone.apiserver.documents.tables import Column

__all__ = ["ALL_VERBS", "Strategy", "Subresource", "Verdict"]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource as discovery lists it; the kind of what is sent and answered."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass
class Strategy:
    """A kind and its rules.

    Attributes:
        group: Empty for core kinds.
        namespaced: Whether objects live in a namespace.
        fields: Selectable fields besides name and namespace; None where the kind has no list of its own.
        has_generation: Whether `metadata.generation` is kept.
        has_status: Whether `/status` exists: the main endpoint leaves `status` alone, `/status` everything else.
        needs_version: Whether a PUT without resourceVersion is refused.
        deletes_to_object: Whether an immediate delete answers the object rather than a Status.
        generates_names: Whether `generateName` is meant for this kind (all but review kinds).
        schema: For strategic merge, apply and managedFields.
    """

    group: str
    version: str
    kind: str
    plural: str
    schema: Node
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    fields: FieldReaders | None = None
    has_generation: bool = False
    has_status: bool = False
    needs_version: bool = False
    deletes_to_object: bool = False
    columns: Sequence[Column] = field(default_factory=tuple)

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        """Whether the kind comes from a CustomResourceDefinition."""
        return False

    def decode(self, document: dict[str, Any]) -> list[str]:
        """Brings a decoded body into the kind's form, in place; returns a sentence per dropped field (`unknown field "spec.x"`).

        Built-in kinds lose unknown fields, nulls and empty values that the API does not keep, quantities become canonical.
        Custom resources are pruned.

        Raises:
            Undecodable: a value of a wrong type.
        """
        raise NotImplementedError

    def default(self, document: dict[str, Any]) -> None:
        """Fills in defaults, in place."""
        raise NotImplementedError

    def prepare_create(self, document: dict[str, Any]) -> None:
        """Clears what a client may not set on create (status), sets what only the server sets; not the common metadata."""
        raise NotImplementedError

    def prepare_update(self, new: dict[str, Any], old: Mapping[str, Any], *, subresource: str = "") -> None:
        """Restores what this endpoint may not change, and raises `metadata.generation` when the kind says so."""
        raise NotImplementedError

    def validate(self, document: dict[str, Any]) -> Verdict:
        """All violations of a new object, metadata included."""
        raise NotImplementedError

    def validate_update(self, new: dict[str, Any], old: dict[str, Any], *, subresource: str = "") -> Verdict:
        """All violations of a change, metadata included."""
        raise NotImplementedError

    def warnings(self, document: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        """What is allowed but deserves a `Warning` header."""
        raise NotImplementedError

    def cells(self, document: Mapping[str, Any], now: float) -> list[Any]:
        """One cell per column."""
        raise NotImplementedError

    def conditions(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Conditions of the table row."""
        raise NotImplementedError
