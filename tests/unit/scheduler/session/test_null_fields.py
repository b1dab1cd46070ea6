"""Null in the fields of pods that stay unparsed: affinity, spread constraints, claims and volumes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.records.reading import convert
from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import configured, decided

PLUGINS = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
TERM = {
    "labelSelector": SELECTOR,
    "topologyKey": "zone",
    "namespaces": ["t"],
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": ["a"],
    "mismatchLabelKeys": ["z"],
}
NODES = {
    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
}
OF_PODS = {REQUIRED: [TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}
SPEC: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [NODES]}, PREFERRED: [{"weight": 1, "preference": NODES}]},
        "podAffinity": OF_PODS,
        "podAntiAffinity": OF_PODS,
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
            "minDomains": 1,
            "nodeAffinityPolicy": "Honor",
            "matchLabelKeys": ["a"],
        }
    ],
    "resourceClaims": [{"name": "x", "resourceClaimName": "y"}],
    "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "s", "resources": {}}}}}],
}


def nulled(value: Any) -> Iterator[Any]:
    """Yield copies of `value`, in each of which one field of an object is null."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if isinstance(value, dict):
            yield {**value, key: None}
        for part in nulled(value[key]):
            result = copy.copy(value)
            result[key] = part
            yield result


@pytest.mark.parametrize("is_placed", [False, True], ids=["waiting", "placed"])
def test_null_in_any_unparsed_field_neither_leaves_out_the_pod_nor_fails_the_session(is_placed: bool) -> None:
    configuration = configured(PLUGINS)
    for spec in nulled(SPEC):
        cache = Cache()
        groups = [["j", "q", 1, {"phase": "Inqueue"}], ["r", "q", 1, {"phase": "Running"}]]
        feed(cache, {"nodes": [["n1", 8, "16Gi"]], "queues": [["q", {}]], "podgroups": groups, "pods": []})
        for name, node, is_changed in (("r", "n1", is_placed), ("j", "-", not is_placed)):
            body = msgspec.to_builtins(objects.pod([f"{name}-0", name, node, 1, "1Gi"]))
            body["metadata"]["labels"] = {"a": "b"}
            cache.pod_changed(None, convert({**body, "spec": body["spec"] | (spec if is_changed else {})}, records.Pod))
        decided(cache, configuration, now=0.0, period=1)
        assert cache.problems == {}, spec
