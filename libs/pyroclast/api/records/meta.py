"""The common base of all records: metadata, owners and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import msgspec

from pyroclast.api.types import Key, ResourceType


class Wire(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Base of every record: an immutable part of an object, with the field names of JSON. Unknown fields are dropped."""


class OwnerReference(Wire, frozen=True, kw_only=True):
    """One owner of an object. `controller` marks the owner that manages the object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Wire, frozen=True, kw_only=True):
    """Metadata of an object. Times are RFC 3339 in UTC, as the server writes them, so that they can be compared as text."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return Key(self.namespace, self.name)

    @property
    def is_terminating(self) -> bool:
        """Whether the object is being deleted: it has a deletion timestamp."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object; None when there is none."""
        for owner in self.owner_references:  # runs for every event: a generator would take three times as long
            if owner.controller:
                return owner
        return None

    def controller_of(self, kind: ResourceType) -> OwnerReference | None:
        """Return the owner that manages this object if it is of `kind`; else None."""
        owner = self.controller
        return owner if owner is not None and (owner.kind, owner.api_version) == (kind.kind, kind.api_version) else None


class ObjectRecord(Wire, frozen=True, kw_only=True):
    """Base of the records that are whole objects.

    `ESSENTIAL`: paths of fields whose default would do harm, such as "no replicas". When such a field cannot be read, the object
    is left out; any other field that cannot be read has its default.
    """

    ESSENTIAL: ClassVar[tuple[str, ...]] = ()

    metadata: Meta = Meta()

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return self.metadata.key


class Condition(Wire, frozen=True, kw_only=True):
    """A condition in `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Record(Protocol):
    """The interface of all records that informers and recorders use."""

    @property
    def metadata(self) -> Meta:
        """Metadata of the object."""
        ...

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        ...
