"""The objects of a scenario as the API would show them, read as the records that the watches give."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pyroclast.api import records

NOW = 1_800_000_000.0
NAMESPACE = "t"
_NODE = {"images", "pods", "labels", "taints", "unschedulable", "annotations", "used", "idle"}


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(text: str) -> float:
    units = {"s": "seconds", "m": "minutes", "h": "hours"}
    return sum((timedelta(**{units[unit]: float(n)}).total_seconds() for n, unit in re.findall(r"([\d.]+)([smh])", text)), 0.0)


def created(options: Mapping[str, Any]) -> str:
    if "age" in options:
        return timestamp(NOW - duration(options["age"]))
    return timestamp(NOW - 3600 + options.get("created", 0))


def quantities(resources: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if resources is None else {name: str(amount) for name, amount in resources.items()}


def node(row: list[Any]) -> records.Node:
    name, cpu, memory, options = [*row, {}][:4]
    extra = {key: value for key, value in options.items() if key not in _NODE}
    allocatable = {"cpu": str(cpu), "memory": str(memory), "pods": str(options.get("pods", 10)), **(quantities(extra) or {})}
    taints = [taint(text) for text in options.get("taints", [])]
    labels, annotations = options.get("labels", {}), options.get("annotations", {})
    body = {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels, "annotations": annotations},
        "spec": {"unschedulable": options.get("unschedulable", False), "taints": taints},
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": images(options)},
    }
    return msgspec.convert(body, records.Node)


def images(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{name: size in MiB}."""
    return [{"names": [name], "sizeBytes": size * 2**20} for name, size in (options.get("images") or {}).items()]


def taint(text: str) -> dict[str, str]:
    body, _, effect = text.rpartition(":")
    key, _, value = body.partition("=")
    return {"key": key, "value": value, "effect": effect}


def queue(row: list[Any]) -> records.Queue:
    name, options = [*row, {}][:2]
    spec: dict[str, Any] = {"weight": options.get("weight", 1), "priority": options.get("priority", 0)}
    for key in ("capability", "deserved"):
        if options.get(key) is not None:
            spec[key] = quantities(options[key])
    if options.get("guarantee") is not None:
        spec["guarantee"] = {"resource": quantities(options["guarantee"])}
    for key in ("parent", "reclaimable", "affinity"):
        if key in options:
            spec[key] = options[key]
    annotations = dict(options.get("annotations", {}))
    if "hier" in options:
        annotations["volcano.sh/hierarchy"], annotations["volcano.sh/hierarchy-weights"] = options["hier"]
    body = {
        "metadata": {
            "name": name,
            "uid": name,
            "annotations": annotations,
            "creationTimestamp": created(options),
        },
        "spec": spec,
        "status": {"state": options.get("state", "Open")},
    }
    return msgspec.convert(body, records.Queue)


def edited(old: Any, **parts: Mapping[str, Any]) -> Any:
    """A copy of an object with other fields in these parts, such as its status."""
    body = msgspec.to_builtins(old)
    return msgspec.convert(body | {part: body.get(part, {}) | fields for part, fields in parts.items()}, type(old))


def priority_class(value: int) -> records.PriorityClass:
    return msgspec.convert(
        {"metadata": {"name": f"class-{value}", "uid": f"class-{value}"}, "value": value}, records.PriorityClass
    )


def resource_quota(hard: Mapping[str, Any], used: Mapping[str, Any], *, name: str = "quota") -> records.ResourceQuota:
    status = {"hard": quantities(hard), "used": quantities(used)}
    return msgspec.convert({"metadata": {"namespace": NAMESPACE, "name": name}, "status": status}, records.ResourceQuota)


def device_config(tables: Mapping[str, Any]) -> list[records.ConfigMap]:
    """deviceConfig: what the ConfigMap of deviceshare says, as a mapping."""
    if "deviceConfig" not in tables:
        return []
    metadata = {"namespace": "kube-system", "name": "volcano-vgpu-device-config"}
    text = json.dumps(tables["deviceConfig"])
    return [msgspec.convert({"metadata": metadata, "data": {"device-config.yaml": text}}, records.ConfigMap)]


def disruption_budget(budget: Mapping[str, Any]) -> records.PodDisruptionBudget:
    body = {
        "metadata": {"namespace": NAMESPACE, "name": budget.get("name", "budget")},
        "spec": {"selector": {"matchLabels": budget["selector"]} if budget["selector"] else {}},
        "status": {
            "disruptionsAllowed": budget["allowed"],
            "disruptedPods": {pod: timestamp(NOW) for pod in budget.get("disrupted", [])},
        },
    }
    return msgspec.convert(body, records.PodDisruptionBudget)


def hyper_node(name: str, tier: int, members: list[str], known: Mapping[str, Any], tier_name: str = "") -> records.HyperNode:
    listed = [{"type": "HyperNode" if each in known else "Node", "selector": {"exactMatch": {"name": each}}} for each in members]
    body = {"metadata": {"name": name, "uid": name}, "spec": {"tier": tier, "tierName": tier_name, "members": listed}}
    return msgspec.convert(body, records.HyperNode)


def topology(given: list[Any]) -> dict[str, Any]:
    """[mode, highest tier]."""
    found: dict[str, Any] = {"mode": given[0]}
    if len(given) > 1 and isinstance(given[1], int):
        found["highestTierAllowed"] = given[1]
    return found


def sub_group(number: int, row: list[Any]) -> dict[str, Any]:
    """[label that splits, mode, tier, options]."""
    options = next((each for each in row if isinstance(each, dict)), {})
    labels = {"spec": "volcano.sh/task-spec", "inst": "volcano.sh/task-instance"}
    made: dict[str, Any] = {
        "name": f"policy-{number}",
        "matchLabelKeys": [labels[row[0]]],
        "subGroupSize": options.get("size", 1),
        "minSubGroups": options.get("minSubGroups", 0),
    }
    if row[1] != "none":
        made["networkTopology"] = topology([each for each in row[1:] if not isinstance(each, dict)])
    return made


def pod_group(row: list[Any]) -> records.PodGroup:
    name, queue_name, minimum, options = [*row, {}][:4]
    spec: dict[str, Any] = {"minMember": minimum, "queue": queue_name, "minTaskMember": options.get("roles") or {}}
    if options.get("minRes") is not None:
        spec["minResources"] = quantities(options["minRes"])
    if options.get("class") is not None:
        spec["priorityClassName"] = f"class-{options['class']}"
    if options.get("topo"):
        spec["networkTopology"] = topology(options["topo"])
    if "topoName" in options:
        spec["networkTopology"] = {"mode": "hard", "highestTierName": options["topoName"]}
    spec["subGroupPolicy"] = [sub_group(number, each) for number, each in enumerate(options.get("sub") or [])]
    body = {
        "metadata": {
            "namespace": options.get("ns", NAMESPACE),
            "name": name,
            "uid": name,
            "annotations": options.get("annotations", {}),
            "labels": options.get("labels", {}),
            "creationTimestamp": created(options),
        },
        "spec": spec,
        "status": {"phase": options.get("phase", "Inqueue")},
    }
    return msgspec.convert(body, records.PodGroup)


def pod(row: list[Any]) -> records.Pod:
    name, group, where, cpu, memory, options = [*row, {}][:6]
    annotations = {"scheduling.k8s.io/group-name": group, **options.get("annotations", {})}
    if "role" in options:
        annotations["volcano.sh/task-spec"] = options["role"]
    if options.get("pre") is False:
        annotations["volcano.sh/preemptable"] = "false"
    requests = {"cpu": str(cpu), "memory": str(memory), **(quantities(options.get("res")) or {})}
    for key, value in options.items():
        if "/" in key:
            requests[key] = str(value)
    limits = {key: value for key, value in requests.items() if "/" in key or options.get("guaranteed")}
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "nodeName": "" if where == "-" else where,
        "nodeSelector": options.get("sel", {}),
        "containers": [container(requests, limits, options)],
        "tolerations": tolerations(options),
        "schedulingGates": [{"name": gate} for gate in options.get("gates", [])],
        "affinity": affinity(options),
        "topologySpreadConstraints": [spread(options["spread"])] if "spread" in options else [],
    }
    spec["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in options.get("pvc", [])]
    spec["volumes"] += [{"name": each, "ephemeral": {}} for each in options.get("ephemeral", [])]
    if "claim" in options:
        claim = options["claim"]
        spec["resourceClaims"] = [{"name": "c", "resourceClaimName": f"{name}-claim" if " " in claim else claim}]
    if "prio" in options:
        spec["priority"] = options["prio"]
    if options.get("never"):
        spec["preemptionPolicy"] = "Never"
    if "host" in options:
        spec["affinity"].setdefault("nodeAffinity", {})
    metadata: dict[str, Any] = {
        "namespace": options.get("ns", NAMESPACE),
        "name": name,
        "uid": f"t-{name}",
        "labels": options.get("labels", {}),
        "annotations": annotations,
        "creationTimestamp": created(options),
    }
    if options.get("releasing"):
        metadata["deletionTimestamp"] = timestamp(NOW)
    status: dict[str, Any] = {
        "phase": options.get("phase", "Pending" if where == "-" else "Running"),
        "nominatedNodeName": options.get("nominated", ""),
    }
    if "placed" in options:
        since = timestamp(NOW - options["placed"])
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}]
    if "started" in options:
        status["startTime"] = timestamp(NOW - options["started"])
    if "resized" in options:
        has = {"cpu": str(options["resized"])}
        status["containerStatuses"] = [{"name": "c", "resources": {"requests": has}, "allocatedResources": has}]
    if "infeasible" in options:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, records.Pod)


def container(requests: Mapping[str, str], limits: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    resources = {"requests": requests, "limits": limits}
    return {"name": "c", "image": options.get("image", ""), "resources": resources, "ports": host_ports(options)}


def host_ports(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "hostPort" not in options:
        return []
    return [{"containerPort": options["hostPort"], "hostPort": options["hostPort"], "protocol": "TCP"}]


def tolerations(options: Mapping[str, Any]) -> list[dict[str, str]]:
    if "tolerate" not in options:
        return []
    parts = taint(options["tolerate"])
    operator = "Equal" if parts["value"] else "Exists"
    return [{"key": parts["key"], "operator": operator, "value": parts["value"], "effect": parts["effect"]}]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(options: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "requireNode" in options:
        terms = [
            {"matchExpressions": [{"key": each["key"], "operator": each["op"], "values": each.get("values", [])}]}
            for each in options["requireNode"]
        ]
        found["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    if "prefer" in options:
        key, value = next(pair for pair in options["prefer"].items() if pair[0] != "weight")
        preference = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        node_affinity = found.setdefault("nodeAffinity", {})
        node_affinity[PREFERRED] = [{"weight": options["prefer"]["weight"], "preference": preference}]
    if "affine" in options:
        found["podAffinity"] = {REQUIRED: [pod_term(options["affine"])]}
    if "anti" in options:
        found["podAntiAffinity"] = {REQUIRED: [pod_term(options["anti"])]}
    if "preferPod" in options:
        term = pod_term({key: value for key, value in options["preferPod"].items() if key != "weight"})
        found.setdefault("podAffinity", {})[PREFERRED] = [{"weight": options["preferPod"]["weight"], "podAffinityTerm": term}]
    return found


def pod_term(term: Mapping[str, Any]) -> dict[str, Any]:
    special = {"key", "namespaceSelector", "namespaces", "matchLabelKeys", "mismatchLabelKeys"}
    labels = {key: value for key, value in term.items() if key not in special}
    extra = {key: value for key, value in term.items() if key in special - {"key"}}
    return {"topologyKey": term["key"], "labelSelector": {"matchLabels": labels}, **extra}


def spread(constraint: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topologyKey": constraint["key"],
        "maxSkew": constraint["maxSkew"],
        "whenUnsatisfiable": constraint["when"],
        "labelSelector": {"matchLabels": constraint["match"]},
        **{key: value for key, value in constraint.items() if key in {"minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy"}},
    }
