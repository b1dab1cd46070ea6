"""The base of all models of Pyroclast's kinds, and the types of their fields.

One module defines the JSON form of fields (names, formats, quantities, embedded schemas). The CRDs are generated from these
definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge, MaxLen
from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pyroclast.api import builtin
from pyroclast.api.builtin.structural import INT_OR_STRING, QUANTITY

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

_RANGE = "[0-9]{1,9}(-[0-9]{1,9})?"
_STEPS = "[0-9]{1,9}(-[0-9]{1,9}(:[1-9][0-9]{0,8})?)?"
INDEXES = f"^{_STEPS}(,{_STEPS})*$"
"""Ranges of indexes, such as `0-9999,20000-20100:5`."""
INDEXES_OR_NONE = f"^({_RANGE}(,{_RANGE})*)?$"
"""Ranges of indexes without steps, or nothing."""


class WireModel(BaseModel):
    """Base of every model: camel case in JSON, unknown fields are kept, and the text under a field is its description."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", use_attribute_docstrings=True)


@dataclass(frozen=True, eq=False)
class Extra:
    """Adds keys to the JSON schema of the annotated type."""

    keys: Mapping[str, Any]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), **self.keys}


@dataclass(frozen=True, eq=False)
class _Embedded:
    """Replaces the schema of the annotated type by a schema of a built-in kind, which is loaded only when a schema is
    generated.
    """

    load: Callable[[], Mapping[str, Any]]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self.load())


ATOMIC = Extra({"x-kubernetes-list-type": "atomic"})

Int32: TypeAlias = Annotated[int, Extra({"format": "int32"})]
Int64: TypeAlias = Annotated[int, Extra({"format": "int64"})]
Count: TypeAlias = Annotated[int, Ge(0), Extra({"format": "int32"})]
Name: TypeAlias = Annotated[str, MaxLen(253)]
SubdomainName: TypeAlias = Annotated[str, StringConstraints(max_length=253, pattern=DNS_SUBDOMAIN)]
Duration: TypeAlias = str
"""A Go duration, such as `90s` or `1h30m`."""
Time: TypeAlias = Annotated[str, Extra({"format": "date-time"})]
"""An unparsed RFC 3339 time."""
Quantity: TypeAlias = Annotated[int | str, _Embedded(lambda: QUANTITY)]
IntOrString: TypeAlias = Annotated[int | str, _Embedded(lambda: INT_OR_STRING)]
ResourceList: TypeAlias = dict[str, Quantity]
PodTemplate: TypeAlias = Annotated[dict[str, Any], _Embedded(partial(builtin.structural_schema, builtin.POD_TEMPLATE))]
"""A PodTemplateSpec, raw."""
VolumeClaim: TypeAlias = Annotated[dict[str, Any], _Embedded(partial(builtin.structural_schema, builtin.PVC_SPEC))]
"""A PersistentVolumeClaimSpec, raw."""
LabelSelector: TypeAlias = Annotated[dict[str, Any], _Embedded(partial(builtin.structural_schema, builtin.LABEL_SELECTOR))]
"""A LabelSelector, raw."""

RawObject: TypeAlias = Annotated[
    dict[str, Any], _Embedded(lambda: {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
"""An object of any shape."""

Scalar: TypeAlias = Annotated[str | bool | int | float, _Embedded(lambda: {"x-kubernetes-preserve-unknown-fields": True})]
"""A string, a number or a boolean; the webhooks check the type, for which a structural schema has no word."""


class EmbeddedMetadata(WireModel):
    """Metadata of an object that is to be created."""

    annotations: dict[str, str] | None = None
    """Annotations of the object."""
    finalizers: list[str] | None = None
    """Finalizers of the object."""
    labels: dict[str, str] | None = None
    """Labels of the object."""
    name: str | None = None
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object."""


class ObjectMetadata(EmbeddedMetadata):
    """Metadata of an object; other fields are kept too."""

    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "object"}  # the API server has its own schema, and allows no other at the root of a CRD


class ApiObject(WireModel):
    """Base of the models that are whole objects."""

    api_version: str | None = None
    """Group and version of the schema of this object."""
    kind: str | None = None
    """Kind of this object."""
    metadata: ObjectMetadata | None = None
