"""ColocationConfiguration: memory settings of pods that share a node with others."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pyroclast.api import types
from pyroclast.api.kinds import CustomKind
from pyroclast.api.shared import Condition
from pyroclast.api.wire import ApiObject, Extra, LabelSelector, WireModel

_Percent = Annotated[int, Ge(0), Le(100)]


class MemoryQos(WireModel):
    """Memory settings, in percent of the limit or request."""

    high_ratio: _Percent = 100
    """The percentage of its limit from which a container is slowed down."""
    low_ratio: _Percent = 0
    """The percentage of its request that is protected as long as possible."""
    min_ratio: _Percent = 0
    """The percentage of its request that is always protected."""


class ColocationConfigurationSpec(WireModel):
    """The settings, and the pods to which they apply."""

    selector: LabelSelector | None = None
    """Selects the pods of the namespace to which the settings apply: none when absent, all when empty."""
    memory_qos: MemoryQos | None = None
    """Memory settings."""


class ColocationConfigurationStatus(WireModel):
    """The state of the settings."""

    conditions: (
        Annotated[list[Condition], Extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})] | None
    ) = None
    """Conditions of the settings."""


class ColocationConfiguration(ApiObject):
    """A ColocationConfiguration sets the memory protection of the pods it selects."""

    spec: ColocationConfigurationSpec
    """The settings, and the pods to which they apply."""
    status: ColocationConfigurationStatus | None = None
    """The state of the settings."""


KIND = CustomKind(types.COLOCATION_CONFIGURATIONS, ColocationConfiguration)
