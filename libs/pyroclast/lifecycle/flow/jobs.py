"""The Jobs that a flow makes: a template's spec, changed by the entry, marked and owned."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.records import JobFlow
from pyroclast.api.types import JOB_FLOWS, JOBS
from pyroclast.lifecycle.flow.facts import CreateJob
from pyroclast.lifecycle.flow.names import marks
from pyroclast.lifecycle.flow.patch import patched
from pyroclast.lifecycle.ownership import controller_reference

__all__ = ["ITEM", "manifest"]

ITEM: Final = "VC_FLOW_ITEM"
"""The variable in which the containers of a round find what it is about."""

_CONTAINERS: Final = ("initContainers", "containers")


def manifest(flow: JobFlow, effect: CreateJob) -> dict[str, Any]:
    """The Job to make; parts of it are raw JSON.

    Raises:
        PatchError: the patch of the entry does not fit the template.
    """
    labels, annotations = marks(flow, effect.entry.name)
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
    """The spec as it came, unless the entry changes it."""
    has_patch = bytes(effect.entry.patch) not in (b"", b"null")
    if not has_patch and effect.item is None:
        return effect.template
    patch = msgspec.json.decode(bytes(effect.entry.patch)) if has_patch else {}
    spec = patched(msgspec.json.decode(bytes(effect.template)), patch)
    return spec if effect.item is None else _with_item(spec, effect.item)


def _with_item(spec: dict[str, Any], item: str) -> dict[str, Any]:
    """The item in the environment of all containers; what else is there keeps its place."""
    tasks = [
        _map(task, "template", lambda template: _map(template, "spec", lambda pod: _pod(pod, item)))
        for task in spec.get("tasks") or ()
    ]
    return {**spec, "tasks": tasks}


def _pod(pod: dict[str, Any], item: str) -> dict[str, Any]:
    def container(body: dict[str, Any]) -> dict[str, Any]:
        env = [each for each in body.get("env") or () if each.get("name") != ITEM]
        return {**body, "env": [*env, {"name": ITEM, "value": item}]}

    changed = {kind: [container(each) for each in pod[kind]] for kind in _CONTAINERS if isinstance(pod.get(kind), list)}
    return {**pod, **changed}


def _map(body: dict[str, Any], name: str, change: Any) -> dict[str, Any]:  # noqa: ANN401 - a function on JSON
    inner = body.get(name)
    return {**body, name: change(inner)} if isinstance(inner, dict) else body
