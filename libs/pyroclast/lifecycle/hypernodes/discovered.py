"""HyperNodes as a source discovers them, and the writes that make the cluster match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api import keys
from pyroclast.api.enums import MemberType
from pyroclast.api.records import HyperNode, HyperNodeSpec, reading
from pyroclast.api.types import HYPER_NODES


@dataclass(frozen=True, slots=True)
class Found:
    """A discovered HyperNode; `members` are the names of its direct members, all of the same type."""

    name: str
    tier: int
    members: tuple[str, ...]
    member_type: MemberType = MemberType.NODE
    tier_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """The HyperNodes to create, patch and delete.

    `foreign`: names that HyperNodes of another source already have; these HyperNodes are not changed.
    """

    create: tuple[dict[str, Any], ...] = ()
    patch: tuple[tuple[HyperNode, dict[str, Any]], ...] = ()
    delete: tuple[HyperNode, ...] = ()
    foreign: tuple[str, ...] = ()


def changes(found: Sequence[Found], there: Iterable[HyperNode], source: str) -> Changes:
    """Return the changes that turn the HyperNodes of `source` among `there` into `found`. `there`: all existing HyperNodes."""
    known = {each.metadata.name: each for each in there}
    create, patches, foreign = [], [], []
    for each in found:
        body, old = manifest(each, source), known.get(each.name)
        if old is None:
            create.append(body)
        elif old.metadata.labels.get(keys.NETWORK_TOPOLOGY_SOURCE) != source:
            foreign.append(each.name)
        elif patch := _patch(old, body):
            patches.append((old, patch))
    names = {each.name for each in found}
    gone = [
        each
        for name, each in known.items()
        if name not in names and each.metadata.labels.get(keys.NETWORK_TOPOLOGY_SOURCE) == source
    ]
    return Changes(tuple(create), tuple(patches), tuple(gone), tuple(foreign))


def manifest(found: Found, source: str) -> dict[str, Any]:
    """Return the HyperNode to create."""
    members = [{"type": found.member_type.value, "selector": {"exactMatch": {"name": name}}} for name in found.members]
    spec: dict[str, Any] = {"tier": found.tier, "members": members}
    if found.tier_name:
        spec["tierName"] = found.tier_name
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.kind,
        "metadata": {"name": found.name, "labels": {**found.labels, keys.NETWORK_TOPOLOGY_SOURCE: source}},
        "spec": spec,
    }


def _patch(old: HyperNode, body: Mapping[str, Any]) -> dict[str, Any]:
    labels = {key: value for key, value in body["metadata"]["labels"].items() if old.metadata.labels.get(key) != value}
    patch: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
    if reading.convert(body["spec"], HyperNodeSpec) != old.spec:
        patch["spec"] = {"tierName": None, **body["spec"]}
    return patch
