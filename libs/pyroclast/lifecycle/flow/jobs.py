"""The Jobs that a flow creates: the spec of a template, changed by the entry, with the flow's labels and owner reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api import keys
from pyroclast.api.records import JobFlow
from pyroclast.api.types import JOB_FLOWS, JOBS
from pyroclast.lifecycle.flow.facts import CreateJob
from pyroclast.lifecycle.flow.names import marks
from pyroclast.lifecycle.flow.patch import PatchError, patched
from pyroclast.lifecycle.ownership import controller_reference

ITEM: Final = "VC_FLOW_ITEM"
"""The environment variable that holds the item of a round, in all containers of the round."""

_NOTHING: Final = (b"", b"null")
_CONTAINERS: Final = ("initContainers", "containers")


def manifest(flow: JobFlow, effect: CreateJob) -> dict[str, Any]:
    """Return the manifest of the Job to create; parts of the manifest are raw JSON.

    Raises:
        PatchError: the patch of the entry does not fit the template.
    """
    labels, annotations = marks(flow, effect.entry.name)
    if by := flow.metadata.annotations.get(keys.SUBMITTED_BY):
        annotations[keys.SUBMITTED_BY] = by
    if effect.retry:
        annotations[keys.FLOW_RETRY] = str(effect.retry)
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": effect.name,
            "namespace": flow.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(JOB_FLOWS, flow.metadata)],
        },
        "spec": _spec(effect),
    }


def _spec(effect: CreateJob) -> msgspec.Raw | dict[str, Any]:
    """Return the spec, unchanged unless the entry has a patch or an item.

    The API server, or the patch, reports what is wrong with the spec.
    """
    has_patch = bytes(effect.entry.patch) not in _NOTHING
    template = effect.template if bytes(effect.template) not in _NOTHING else msgspec.Raw(b"{}")
    if not has_patch and effect.item is None:
        return template
    spec = patched(msgspec.json.decode(bytes(template)), _patch(effect.entry.patch) if has_patch else {})
    return spec if effect.item is None else _with_item(spec, effect.item)


def _patch(raw: msgspec.Raw) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(bytes(raw))
    except RecursionError:
        raise PatchError("patch", "is nested too deeply") from None


def _with_item(spec: dict[str, Any], item: str) -> dict[str, Any]:
    """Set the item in the environment of all containers; malformed parts of the spec stay unchanged."""

    def container(body: dict[str, Any]) -> dict[str, Any]:
        env = [each for each in body.get("env") or () if not isinstance(each, dict) or each.get("name") != ITEM]
        return {**body, "env": [*env, {"name": ITEM, "value": item}]}

    def pod(body: dict[str, Any]) -> dict[str, Any]:
        for kind in _CONTAINERS:
            body = _each(body, kind, container)
        return body

    return _each(spec, "tasks", lambda task: _map(task, "template", lambda template: _map(template, "spec", pod)))


_Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def _each(body: dict[str, Any], name: str, change: _Change) -> dict[str, Any]:
    items = body.get(name)
    if not isinstance(items, list):
        return body
    return {**body, name: [change(each) if isinstance(each, dict) else each for each in items]}


def _map(body: dict[str, Any], name: str, change: _Change) -> dict[str, Any]:
    inner = body.get(name)
    return {**body, name: change(inner)} if isinstance(inner, dict) else body
