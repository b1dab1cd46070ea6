"""The records of ColocationConfiguration, and of a pod's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.meta import ObjectRecord, Wire


class MemoryQos(Wire, frozen=True, kw_only=True):
    """Memory settings in percent."""

    high_ratio: int = 100
    low_ratio: int = 0
    min_ratio: int = 0


class ColocationConfigurationSpec(Wire, frozen=True, kw_only=True):
    """Memory settings, and the pods to which they apply; `selector` is unparsed."""

    selector: Mapping[str, Any] | None = None
    memory_qos: MemoryQos | None = None


class ColocationConfiguration(ObjectRecord, frozen=True, kw_only=True):
    spec: ColocationConfigurationSpec = ColocationConfigurationSpec()


class PodMeta(ObjectRecord, frozen=True, kw_only=True):
    """The metadata of a pod, for readers of labels and annotations only."""
