"""LimitRanges: default resources of containers, and limits of containers, pods and claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.resources.pods import effective
from pyroclast_standalone.apiserver.admission import usage
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.storage.store import Store

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
        """Reject a new pod or claim that exceeds a limit.

        Raises:
            StatusError: 403. The message names every exceeded limit.
        """
        body = review.body
        if review.operation != "CREATE" or review.subresource or body is None or not self._ranges.keys(review.namespace):
            return
        problems: list[str] = []
        if review.resource.qualified == "pods":
            containers = [*(body["spec"].get("containers") or ()), *(body["spec"].get("initContainers") or ())]
            for item in self._items(review.namespace, "Container"):
                for container in containers:
                    resources = container.get("resources") or {}
                    problems += _exceeded(item, usage.parse(resources.get("requests")), usage.parse(resources.get("limits")))
            totals = [effective(body["spec"], kind) for kind in ("requests", "limits")]
            for item in self._items(review.namespace, "Pod"):
                problems += _exceeded(item, *totals)
        elif review.resource.qualified == "persistentvolumeclaims":
            requests = usage.parse((body["spec"].get("resources") or {}).get("requests"))
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


def _exceeded(item: Mapping[str, Any], requests: usage.Usage, limits: usage.Usage) -> list[str]:
    """Return a message for each violated limit of one item."""
    kind = item["type"]
    word = "request" if kind == "PersistentVolumeClaim" else "limit"
    problems: list[str] = []
    for name, least in usage.parse(item.get("min")).items():
        rule = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            problems.append(f"{rule}.  No request is specified")
        elif requests[name] < least:
            problems.append(f"{rule}, but request is {requests[name]}")
        elif name in limits and limits[name] < least:
            problems.append(f"{rule}, but limit is {limits[name]}")
    for name, most in usage.parse(item.get("max")).items():
        rule = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            problems.append(f"{rule}.  No {word} is specified")
        elif most < limits[name]:
            problems.append(f"{rule}, but {word} is {limits[name]}")
        elif name in requests and most < requests[name]:
            problems.append(f"{rule}, but request is {requests[name]}")
    return [*problems, *_out_of_proportion(item, requests, limits)]


def _out_of_proportion(item: Mapping[str, Any], requests: usage.Usage, limits: usage.Usage) -> list[str]:
    """Return a message for each resource whose limit exceeds the allowed multiple of its request."""
    problems: list[str] = []
    for name, most in usage.parse(item.get("maxLimitRequestRatio")).items():
        rule = f"{name} max limit to request ratio per {item['type']} is {most}"
        request, limit = requests.get(name), limits.get(name)
        if not request:
            problems.append(f"{rule}, but no request is specified or request is 0")
        elif not limit:
            problems.append(f"{rule}, but no limit is specified or limit is 0")
        elif float(limit) / float(request) > float(most):
            problems.append(f"{rule}, but provided ratio is {float(limit) / float(request):f}")
    return problems
