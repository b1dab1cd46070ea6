"""What the write pipeline asks a kind: one class with two forms, for built-in kinds and for custom resources.

The order of a create is decode → default → prepare_create → validate; of an update decode → default → prepare_update →
validate_update. All of them work on plain JSON objects and change only what they are given first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyroclast_standalone.apiserver.documents.schema import Node
from pyroclast_standalone.apiserver.documents.selectors import FieldReaders
from pyroclast_standalone.apiserver.documents.structural import Verdict
from pyroclast_standalone.apiserver.documents.tables import Column
from pyroclast_standalone.apiserver.kinds.builtins import ALL_VERBS, Subresource

__all__ = ["ALL_VERBS", "Strategy", "Subresource", "Verdict"]


class Strategy(ABC):
    """A kind and its rules.

    Attributes:
        group: Empty for core kinds.
        namespaced: Whether objects live in a namespace.
        fields: Selectable fields besides name and namespace; None where the kind has no list of its own.
        columns: Of tables.
        is_custom: Whether the kind comes from a CustomResourceDefinition.
        has_generation: Whether `metadata.generation` is kept: 1 on create, raised by `prepare_update`.
        has_status: Whether `/status` exists: the main endpoint leaves `status` alone, `/status` everything else.
        needs_version: Whether a PUT without resourceVersion is refused.
        deletes_to_object: Whether an immediate delete answers the object rather than a Status.
        created_by_put: Whether a PUT creates what is not there.
        deprecation: What every answer warns of.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    fields: FieldReaders | None = None
    columns: Sequence[Column] = ()
    is_custom: bool = False
    has_generation: bool = False
    has_status: bool = False
    needs_version: bool = False
    deletes_to_object: bool = False
    created_by_put: bool = False
    deprecation: str = ""

    @property
    @abstractmethod
    def schema(self) -> Node:
        """For strategic merge, apply and managedFields; made when first asked for."""

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @abstractmethod
    def decode(self, document: dict[str, Any], untouched: Collection[str] = (), *, is_applied: bool = False) -> list[str]:
        """Brings a parsed body into the kind's form, in place; returns a sentence per dropped field (`unknown field "spec.x"`).

        Built-in kinds lose unknown fields, nulls and empty values that the API does not keep, quantities become canonical.
        Custom resources are pruned. Then defaults are filled in: who sends an object owns its defaults too.

        Args:
            document: The body, or a patched object.
            untouched: Fields of an object that are as they were stored.
            is_applied: Whether it is what an apply made: nulls in it are for validation to refuse.

        Raises:
            Undecodable: a value of a wrong type.
        """

    @abstractmethod
    def default(self, document: dict[str, Any]) -> None:
        """Fills in defaults, in place."""

    @abstractmethod
    def prepare_create(self, document: dict[str, Any]) -> None:
        """Clears what a client may not set on create (status), sets what only the server sets, the generation among it."""

    @abstractmethod
    def prepare_update(self, new: dict[str, Any], old: Mapping[str, Any], *, subresource: str = "") -> None:
        """Restores what this endpoint may not change, and raises `metadata.generation` where the kind says so."""

    @abstractmethod
    def validate(self, document: dict[str, Any]) -> Verdict:
        """All violations of a new object, metadata included."""

    @abstractmethod
    def validate_update(self, new: dict[str, Any], old: dict[str, Any], *, subresource: str = "") -> Verdict:
        """All violations of a change, metadata included; `metadata.resourceVersion` is taken to be right."""

    def warnings(self, document: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        """What is allowed but deserves a `Warning` header."""
        del document, old
        return []

    @abstractmethod
    def cells(self, document: Mapping[str, Any], now: float) -> list[Any]:
        """One cell per column; `now` in seconds since the epoch."""

    def conditions(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Conditions of the table row: that a pod has completed."""
        del document
        return []
