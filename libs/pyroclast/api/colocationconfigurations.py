"""ColocationConfiguration: memory settings of pods that share a node with others."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pyroclast.api import types
from pyroclast.api.kinds import CustomKind
from pyroclast.api.shared import Condition
from pyroclast.api.wire import ApiObject, Extra, LabelSelector, WireModel

__all__ = ["KIND", "ColocationConfiguration", "ColocationConfigurationSpec", "ColocationConfigurationStatus", "MemoryQos"]

_Percent = Annotated[int, Ge(0), Le(100)]


class MemoryQos(WireModel):
    """Memory settings, in percent of the limit or request."""

    high_ratio: _Percent = 100
    """At what share of its limit a container is slowed down."""
    low_ratio: _Percent = 0
    """What share of its request is protected as long as possible."""
    min_ratio: _Percent = 0
    """What share of its request is always protected."""


class ColocationConfigurationSpec(WireModel):
    """Settings, and the pods they are for."""

    selector: LabelSelector | None = None
    """The pods of the namespace that are meant: none when absent, all when empty."""
    memory_qos: MemoryQos | None = None
    """Memory settings."""


class ColocationConfigurationStatus(WireModel):
    """How the settings are carried out."""

    conditions: (
        Annotated[list[Condition], Extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})] | None
    ) = None
    """What holds for them."""


class ColocationConfiguration(ApiObject):
    """A ColocationConfiguration sets the memory protection of the pods it selects."""

    spec: ColocationConfigurationSpec
    """Settings, and the pods they are for."""
    status: ColocationConfigurationStatus | None = None
    """How they are carried out."""


KIND = CustomKind(types.COLOCATION_CONFIGURATIONS, ColocationConfiguration)
