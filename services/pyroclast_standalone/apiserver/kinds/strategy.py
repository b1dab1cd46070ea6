"""The interface of a kind for the write pipeline, with two implementations: built-in kinds and custom resources.

A create calls decode → default → prepare_create → validate. An update calls decode → default → prepare_update → validate_update.
All methods work on plain JSON objects and modify only their first argument.
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


class Strategy(ABC):
    """A kind and its rules.

    Attributes:
        group: the API group, empty for core kinds.
        namespaced: whether objects belong to a namespace.
        fields: the selectable fields besides name and namespace. None if the kind has no list of its own.
        columns: the columns of the table that `kubectl get` prints.
        is_custom: whether a CustomResourceDefinition defines the kind.
        has_generation: whether `metadata.generation` is set: 1 on create, increased by `prepare_update`.
        has_status: whether `/status` exists. Then the main endpoint never changes `status`, and `/status` changes nothing else.
        needs_version: whether a PUT without resourceVersion is rejected.
        deletes_to_object: whether an immediate delete returns the object instead of a Status.
        created_by_put: whether a PUT creates a missing object.
        deprecation: the warning in every answer about the kind.
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
        """The schema for strategic merge, apply and managedFields, created on first use."""

    @property
    def api_version(self) -> str:
        """The value of `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @abstractmethod
    def decode(self, document: dict[str, Any], untouched: Collection[str] = (), *, is_applied: bool = False) -> list[str]:
        """Normalise a parsed body in place. Return a sentence for each dropped field (`unknown field "spec.x"`).

        Built-in kinds drop unknown fields, nulls and empty values that the API does not keep, and quantities become canonical.
        Custom resources are pruned. Then defaults are set, so that the writer of an object also owns its defaults.

        Args:
            document: the body, or a patched object.
            untouched: fields of the object that equal their stored values.
            is_applied: whether an apply created the document. Nulls in it are left for validation to reject.
        """

    @abstractmethod
    def default(self, document: dict[str, Any]) -> None:
        """Set the defaults of `document` in place."""

    @abstractmethod
    def prepare_create(self, document: dict[str, Any]) -> None:
        """Clear the fields that a client may not set on create (status), and set the fields of the server, such as the
        generation.
        """

    @abstractmethod
    def prepare_update(self, new: dict[str, Any], old: Mapping[str, Any], *, subresource: str = "") -> None:
        """Restore the fields that this endpoint may not change, and increase `metadata.generation` if the rules of the kind say
        so.
        """

    @abstractmethod
    def validate(self, document: dict[str, Any]) -> Verdict:
        """Return all faults of a new object, including its metadata."""

    @abstractmethod
    def validate_update(self, new: dict[str, Any], old: dict[str, Any], *, subresource: str = "") -> Verdict:
        """Return all faults of a change of an object, including its metadata. `metadata.resourceVersion` was checked before."""

    def warnings(self, document: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[str]:
        """Return the warnings about valid but doubtful values of an object, for the `Warning` headers."""
        del document, old
        return []

    @abstractmethod
    def cells(self, document: Mapping[str, Any], now: float) -> list[Any]:
        """Return the cells of the table row of an object, one for each column. `now` is in seconds since the epoch."""

    def conditions(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the conditions of the table row, such as that a pod has completed."""
        del document
        return []
