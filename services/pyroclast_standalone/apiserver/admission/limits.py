"""LimitRanges, and what an object uses of a ResourceQuota: counts, resources of pods and claims, and scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.storage.store import Store

Usage: TypeAlias = dict[str, Quantity]

_ONE: Final = quantity.from_value(1)
_COUNTED_BY_NAME: Final = {
    "pods",
    "services",
    "configmaps",
    "secrets",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
}
_SHORT: Final = {"cpu", "memory", "ephemeral-storage"}
_FINISHED: Final = {"Succeeded", "Failed"}


def parse(resources: Mapping[str, Any] | None) -> Usage:
    """Return the quantities of a resource list, by name of the resource."""
    return {name: quantity.parse(value) for name, value in (resources or {}).items()}


def wire(usage: Usage) -> dict[str, str]:
    """Return `usage` as a resource list of an API object."""
    return {name: str(usage[name]) for name in sorted(usage)}


def shown(usage: Usage) -> str:
    """Return `usage` as text for messages, such as `cpu=1,pods=2`."""
    return ",".join(f"{name}={usage[name]}" for name in sorted(usage))


def add(total: Usage, more: Usage, *, sign: int = 1) -> None:
    """Add `more` to `total` in place, for the names that `total` has."""
    for name, value in more.items():
        if name in total:
            total[name] = total[name] + value * sign


def usage_of(qualified: str, body: Mapping[str, Any]) -> Usage:
    """Return the usage of one object of the resource `plural.group`. A finished pod only counts as an object."""
    usage: Usage = {f"count/{qualified}": _ONE}
    if qualified in _COUNTED_BY_NAME:
        usage[qualified] = _ONE
    spec = body.get("spec") or {}
    match qualified:
        case "pods":
            return usage | _pod(spec) if not _is_finished(body) else {f"count/{qualified}": _ONE}
        case "persistentvolumeclaims":
            requests = (spec.get("resources") or {}).get("requests") or {}
            if "storage" in requests:
                usage["requests.storage"] = quantity.parse(requests["storage"])
        case _:
            pass
    return usage


def _is_finished(body: Mapping[str, Any]) -> bool:
    return (body.get("status") or {}).get("phase") in _FINISHED


def _pod(spec: Mapping[str, Any]) -> Usage:
    usage: Usage = {}
    for prefix in ("requests", "limits"):
        for name, value in effective(spec, prefix).items():
            usage[f"{prefix}.{name}"] = value
            if prefix == "requests" and name in _SHORT:
                usage[name] = value
    return usage


def _states(container: Mapping[str, Any], kind: str, resource: str) -> bool:
    return resource in ((container.get("resources") or {}).get(kind) or {})


def missing_resources(spec: Mapping[str, Any], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the containers that lack a constrained resource, by resource."""
    missing: dict[str, list[str]] = {}
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return missing
    for name in sorted(names):
        kind, _, resource = name.rpartition(".")
        kind = kind or "requests"
        if resource not in _SHORT or kind not in {"requests", "limits"}:
            continue
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        without = {each["name"] for each in containers if not _states(each, kind, resource)}
        if without:
            missing[name] = sorted(without)
    return missing


def within_scopes(quota: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Return whether the scopes of a quota match this pod."""
    spec = body.get("spec") or {}
    requirements = [{"scopeName": scope, "operator": "Exists"} for scope in quota.get("scopes") or ()]
    requirements += (quota.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_in_scope(each, spec, body) for each in requirements)


def _in_scope(requirement: Mapping[str, Any], spec: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    is_best_effort = (body.get("status") or {}).get("qosClass", "BestEffort") == "BestEffort" and not _pod(spec)
    match requirement["scopeName"]:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "PriorityClass":
            return _selects(requirement, spec.get("priorityClassName") or "")
        case _:
            return False


def _selects(requirement: Mapping[str, Any], value: str) -> bool:
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return not value
        case _:
            return bool(value)


_NOTE: Final = "kubernetes.io/limit-ranger"


class Limits:
    """The admission steps that apply the LimitRange objects of a namespace."""

    def __init__(self, store: Store) -> None:
        self._ranges = store.collection("limitranges")

    def fill_in(self, review: Review) -> None:
        """Set the default resources in the containers of a new pod."""
        body = review.body
        if not _is_new_pod(review) or body is None:
            return
        notes: list[str] = []
        for item in self._items(review.namespace, "Container"):
            for container in body["spec"].get("containers") or ():
                notes += _filled(container, item, "container")
            for container in body["spec"].get("initContainers") or ():
                notes += _filled(container, item, "init container")
        if notes:
            annotations = body["metadata"].get("annotations") or {}
            body["metadata"]["annotations"] = {**annotations, _NOTE: f"LimitRanger plugin set: {'; '.join(notes)}"}

    async def check(self, review: Review) -> None:
        """Reject a new pod or claim that exceeds a limit."""
        body = review.body
        if review.operation != "CREATE" or review.subresource or body is None or not self._ranges.keys(review.namespace):
            return
        problems: list[str] = []
        if review.resource.qualified == "pods":
            containers = [*(body["spec"].get("containers") or ()), *(body["spec"].get("initContainers") or ())]
            for item in self._items(review.namespace, "Container"):
                for container in containers:
                    resources = container.get("resources") or {}
                    problems += _exceeded(item, parse(resources.get("requests")), parse(resources.get("limits")))
            totals = [effective(body["spec"], kind) for kind in ("requests", "limits")]
            for item in self._items(review.namespace, "Pod"):
                problems += _exceeded(item, *totals)
        elif review.resource.qualified == "persistentvolumeclaims":
            requests = parse((body["spec"].get("resources") or {}).get("requests"))
            for item in self._items(review.namespace, "PersistentVolumeClaim"):
                problems += _exceeded(item, requests, requests)
        if problems:
            why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise review.refusal(why)

    def _items(self, namespace: str, kind: str) -> Iterator[Mapping[str, Any]]:
        for stored in self._ranges.select(namespace):
            for item in stored.load()["spec"].get("limits") or ():
                if item.get("type") == kind:
                    yield item


def _is_new_pod(review: Review) -> bool:
    return review.operation == "CREATE" and review.resource.qualified == "pods" and not review.subresource


def _filled(container: dict[str, Any], item: Mapping[str, Any], word: str) -> list[str]:
    """Set the defaults of one container. Return the notes for the pod's annotation."""
    notes: list[str] = []
    resources = container.get("resources") or {}
    for kind, defaults in (("requests", item.get("defaultRequest")), ("limits", item.get("default"))):
        given = resources.get(kind) or {}
        missing = {name: value for name, value in (defaults or {}).items() if name not in given}
        if missing:
            resources[kind] = {**given, **missing}
            notes.append(f"{', '.join(sorted(missing))} {kind.removesuffix('s')} for {word} {container['name']}")
    if notes:
        container["resources"] = resources
    return notes


def _exceeded(item: Mapping[str, Any], requests: Usage, limits: Usage) -> list[str]:
    """Return a message for each violated limit of one item."""
    kind = item["type"]
    word = "request" if kind == "PersistentVolumeClaim" else "limit"
    problems: list[str] = []
    for name, least in parse(item.get("min")).items():
        rule = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            problems.append(f"{rule}.  No request is specified")
        elif requests[name] < least:
            problems.append(f"{rule}, but request is {requests[name]}")
        elif name in limits and limits[name] < least:
            problems.append(f"{rule}, but limit is {limits[name]}")
    for name, most in parse(item.get("max")).items():
        rule = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            problems.append(f"{rule}.  No {word} is specified")
        elif most < limits[name]:
            problems.append(f"{rule}, but {word} is {limits[name]}")
        elif name in requests and most < requests[name]:
            problems.append(f"{rule}, but request is {requests[name]}")
    return [*problems, *_out_of_proportion(item, requests, limits)]


def _out_of_proportion(item: Mapping[str, Any], requests: Usage, limits: Usage) -> list[str]:
    """Return a message for each resource whose limit exceeds the allowed multiple of its request."""
    problems: list[str] = []
    for name, most in parse(item.get("maxLimitRequestRatio")).items():
        rule = f"{name} max limit to request ratio per {item['type']} is {most}"
        request, limit = requests.get(name), limits.get(name)
        if not request:
            problems.append(f"{rule}, but no request is specified or request is 0")
        elif not limit:
            problems.append(f"{rule}, but no limit is specified or limit is 0")
        elif float(limit) / float(request) > float(most):
            problems.append(f"{rule}, but provided ratio is {float(limit) / float(request):f}")
    return problems
