"""Rules of Pod: the configured additions to a pod, and the checks of its annotations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyroclast.api.keys import DISRUPTION_MAX_UNAVAILABLE, DISRUPTION_MIN_AVAILABLE, QUEUE_ALLOCATION_GATE, RESOURCE_GROUP
from pyroclast.resources.go_text import go_quote
from pyroclast.rules.errors import invalid
from pyroclast.rules.resourcegroups import ResourceGroup
from pyroclast.rules.values import items, mapping, mappings, text
from pyroclast.rules.verdicts import ALLOWED, Finding, Patch, Verdict, broken, first_only, found, verdict_of

DISRUPTION_KEYS = (DISRUPTION_MIN_AVAILABLE, DISRUPTION_MAX_UNAVAILABLE)
MIN_INT32, MAX_INT32 = -(2**31), 2**31 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def asks(pod: Mapping[str, Any]) -> bool:
    """Whether a pod requests a resource group or a queue gate by an annotation; without configured groups, only these change."""
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    return RESOURCE_GROUP in annotations or QUEUE_ALLOCATION_GATE in annotations


def default(pod: Mapping[str, Any], *, namespace: str, groups: Iterable[ResourceGroup] = (), queue_gates: bool = False) -> Patch:
    """Return the operations with the configured additions. `queue_gates`: whether pods may request a gate of their queue."""
    spec = mapping(pod.get("spec"))
    namespace = text(mapping(pod.get("metadata")).get("namespace")) or namespace
    patch = _gate(pod, spec) if queue_gates else []
    group = next((group for group in groups if group.selects(pod, namespace)), None)
    return patch + _of_group(spec, group) if group is not None else patch


def _gate(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Patch:
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    gates = items(spec.get("schedulingGates"))
    asked = annotations.get(QUEUE_ALLOCATION_GATE) == "true"
    if not asked or any(gate.get("name") == QUEUE_ALLOCATION_GATE for _, gate in mappings(gates)):
        return []
    gate = {"name": QUEUE_ALLOCATION_GATE}
    if gates:
        return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]
    return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]


def _of_group(spec: Mapping[str, Any], group: ResourceGroup) -> Patch:
    additions: list[tuple[str, Any]] = []
    if group.node_selector:
        additions.append(("nodeSelector", {**mapping(spec.get("nodeSelector")), **group.node_selector}))
    if group.affinity is not None and spec.get("affinity") is None:
        additions.append(("affinity", group.affinity))
    if group.tolerations:
        additions.append(("tolerations", [*items(spec.get("tolerations")), *group.tolerations]))
    if group.scheduler_name:
        additions.append(("schedulerName", group.scheduler_name))
    return [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in additions]


def validate_create(pod: Mapping[str, Any], scheduler_names: Collection[str]) -> Verdict:
    """Return the verdict on a new pod; pods of other schedulers are not checked."""
    if text(mapping(pod.get("spec")).get("schedulerName")) not in scheduler_names:
        return ALLOWED
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    given = [key for key in DISRUPTION_KEYS if key in annotations]
    findings = [finding for key in given if (finding := _check_disruption(key, text(annotations[key])))]
    if len(given) > 1 and not findings:
        sentence = f"not allow configure multiple annotations <[{' '.join(DISRUPTION_KEYS)}]> at same time"
        path = f"metadata.annotations[{given[1]}]"
        findings.append(found(sentence, invalid(path, annotations[given[1]], f"{sentence}; keep one of them")))
    return verdict_of(first_only(findings))


def _check_disruption(key: str, value: str) -> Finding | None:
    """Check for a positive count, or a percentage from 1% to 99% that ends in a percent sign."""
    number = int(value) if _INTEGER.fullmatch(value) and len(value) <= 16 else None
    if number is not None and 0 < number <= MAX_INT32:
        return None
    path = f"metadata.annotations[{key}]"
    if number is not None and MIN_INT32 <= number <= 0:
        return broken(path, value, f"invalid value <{go_quote(value)}> for {key}, it must be a positive integer")
    share = value.replace("%", "")
    if not _INTEGER.fullmatch(share):
        sentence = f"invalid value strconv.Atoi: parsing {go_quote(share)}: invalid syntax for {key}"
        return found(sentence, invalid(path, value, f"{sentence}; write a count such as 2 or a share such as 50%"))
    if value == f"{share}%" and len(share) <= 16 and 0 < int(share) < 100:
        return None
    return broken(
        path, value, f"invalid value <{go_quote(value)}> for {key}, it must be a valid percentage which between 1% ~ 99%"
    )
