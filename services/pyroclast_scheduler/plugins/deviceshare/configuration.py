"""The ConfigMap of devices: the MIG geometries of cards, and the types of Ascend chips."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from pyroclast.api import keys
from pyroclast_scheduler.plugins.deviceshare.cards import Geometry, Profile

FILE: Final = "device-config.yaml"
"""The key in the ConfigMap."""


@dataclass(frozen=True, slots=True)
class Template:
    """A size into which a chip can be divided; `memory` in MiB."""

    name: str
    memory: int


@dataclass(frozen=True, slots=True)
class Chip:
    """A type of Ascend chip; amounts of memory in MiB, `allocatable` of them shareable. `word`: its name in annotations."""

    word: str
    resource: str
    memory_resource: str
    allocatable: int
    capacity: int
    templates: tuple[Template, ...] = ()

    def fitted(self, memory: int) -> Template | None:
        """Return the smallest template with that much memory, or the nameless whole chip; None if the chip is too small."""
        found = next((each for each in self.templates if memory <= each.memory), None)
        return found or (Template("", self.allocatable) if memory <= self.capacity else None)


@dataclass(frozen=True, slots=True)
class KnownGeometries:
    """The geometries of cards whose type contains one of `models`."""

    models: tuple[str, ...]
    geometries: tuple[Geometry, ...]


@dataclass(frozen=True, slots=True)
class VgpuNames:
    """The names of the resources by which containers request virtual GPUs."""

    number: str = keys.VGPU_NUMBER
    memory: str = keys.VGPU_MEMORY
    percentage: str = keys.VGPU_MEMORY_PERCENTAGE
    cores: str = keys.VGPU_CORES


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """How cards can be shared and divided: the resource names, and the geometries by model, of which the first match is used."""

    names: VgpuNames = VgpuNames()
    chips: tuple[Chip, ...] = ()
    known: tuple[KnownGeometries, ...] = ()

    def geometries(self, card_type: str) -> tuple[Geometry, ...]:
        """Return how a card of this type can be divided; empty if that is unknown."""
        matching = (each.geometries for each in self.known if any(model in card_type for model in each.models))
        return next(matching, ())


BUILT_IN: Final = DeviceConfiguration(
    chips=(
        Chip(
            "Ascend310P",
            "huawei.com/Ascend310P",
            "huawei.com/Ascend310P-memory",
            21527,
            24576,
            (Template("vir01", 3072), Template("vir02", 6144), Template("vir04", 12288)),
        ),
    )
)
"""The configuration that is used without a ConfigMap."""


class _Chip(msgspec.Struct, frozen=True, rename="camel"):
    common_word: str
    resource_name: str
    resource_memory_name: str
    memory_allocatable: int
    memory_capacity: int
    templates: list[Template] = []


class _Chips(msgspec.Struct, frozen=True):
    configs: list[_Chip] = []


class _Geometry(msgspec.Struct, frozen=True):
    group: str
    geometries: tuple[Profile, ...]


class _Known(msgspec.Struct, frozen=True, rename="camel"):
    models: tuple[str, ...]
    allowed_geometries: list[_Geometry]


class _Nvidia(msgspec.Struct, frozen=True, rename="camel"):
    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_memory_percentage_name: str = ""
    resource_core_name: str = ""
    known_mig_geometries: list[_Known] = []


class _Document(msgspec.Struct, frozen=True):
    nvidia: _Nvidia | None = None
    vnpus: list[_Chip] | _Chips | None = None


@lru_cache(maxsize=4)
def parse(text: str) -> DeviceConfiguration:
    """Parse the configuration from YAML. If it is malformed, a ValueError names the field."""
    try:
        body: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{FILE} is no YAML: {error}") from error
    try:
        document = msgspec.convert(body, _Document)
    except msgspec.ValidationError as error:
        raise ValueError(f"{FILE}: {error}") from error
    listed = document.vnpus.configs if isinstance(document.vnpus, _Chips) else document.vnpus or []
    nvidia = document.nvidia or _Nvidia()
    return DeviceConfiguration(_names(nvidia), tuple(map(_chip, listed)), tuple(map(_known, nvidia.known_mig_geometries)))


def _names(given: _Nvidia) -> VgpuNames:
    usual = VgpuNames()
    return VgpuNames(
        given.resource_count_name or usual.number,
        given.resource_memory_name or usual.memory,
        given.resource_memory_percentage_name or usual.percentage,
        given.resource_core_name or usual.cores,
    )


def _chip(given: _Chip) -> Chip:
    templates = sorted(given.templates, key=lambda each: each.memory)
    return Chip(
        given.common_word,
        given.resource_name,
        given.resource_memory_name,
        given.memory_allocatable,
        given.memory_capacity,
        tuple(templates),
    )


def _known(given: _Known) -> KnownGeometries:
    return KnownGeometries(given.models, tuple(Geometry(each.group, each.geometries) for each in given.allowed_geometries))
