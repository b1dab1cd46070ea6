"""The Jobs that a flow creates: the spec of a template, changed by the entry, with the flow's labels and owner reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api import keys
from pyroclast.api.records import Job, JobFlow
from pyroclast.api.types import JOB_FLOWS, JOBS, Key
from pyroclast.lifecycle.flow.facts import CreateJob
from pyroclast.lifecycle.flow.patch import decoded, patched
from pyroclast.lifecycle.flow.references import substituted
from pyroclast.lifecycle.flow.uses import check_scripts, patch_of
from pyroclast.lifecycle.merging import controller_reference

_LONGEST_LABEL: Final = 63


def job_name(flow: str, entry: str, index: int | None = None) -> str:
    """Return the name of the Job of an entry, or of round `index` of its loop."""
    return f"{flow}-{entry}" if index is None else f"{flow}-{entry}-{index}"


def marks(flow: JobFlow, entry: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations of a Job of `entry`. A value that is too long for a label is only an annotation."""
    namespace = flow.metadata.namespace
    annotations = {
        keys.CREATED_BY_JOB_FLOW: f"{namespace}.{flow.metadata.name}",
        keys.CREATED_BY_JOB_TEMPLATE: f"{namespace}.{entry}",
    }
    return {key: value for key, value in annotations.items() if len(value) <= _LONGEST_LABEL}, annotations


def is_owned(flow: JobFlow, job: Job) -> bool:
    """Whether `flow` controls `job`, compared by UID."""
    owner = job.metadata.controller
    return owner is not None and owner.uid == flow.metadata.uid


def controlling_flow(job: Job) -> Key | None:
    """Return the flow that controls `job`; None when no flow does."""
    owner = job.metadata.controller_of(JOB_FLOWS)
    return Key(job.metadata.namespace, owner.name) if owner is not None else None


def flows_of(job: Job) -> Iterator[Key]:
    """Yield the flow whose status counts `job`: the flow that controls the Job, else the flow that its label names."""
    meta = job.metadata
    if (flow := controlling_flow(job)) is not None:
        yield flow
    elif name := _named(meta.namespace, meta.labels.get(keys.CREATED_BY_JOB_FLOW, "")):
        yield Key(meta.namespace, name)


def template_of(job: Job) -> Key | None:
    """Return the template from which `job` was created, by the label or annotation of `job`; None when neither names one."""
    meta = job.metadata
    value = meta.labels.get(keys.CREATED_BY_JOB_TEMPLATE) or meta.annotations.get(keys.CREATED_BY_JOB_TEMPLATE, "")
    name = _named(meta.namespace, value)
    return Key(meta.namespace, name) if name else None


def retries_of(job: Job) -> int:
    """Return how many Jobs of this name failed and were created again before `job`."""
    value = job.metadata.annotations.get(keys.FLOW_RETRY, "")
    return int(value) if value.isdecimal() else 0


def _named(namespace: str, value: str) -> str:
    """Return the name in `NAMESPACE.NAME`; a name may contain dots, a namespace may not."""
    return value.removeprefix(f"{namespace}.") if value.startswith(f"{namespace}.") else ""


ITEM: Final = "VC_FLOW_ITEM"
"""The environment variable that holds the item of a round, in all containers of the round."""

_NOTHING: Final = (b"", b"null")
_CONTAINERS: Final = ("initContainers", "containers")


def manifest(flow: JobFlow, effect: CreateJob) -> dict[str, Any]:
    """Return the manifest of the Job to create; parts of the manifest are raw JSON.

    Raises PatchError: the patch of the entry does not fit the template.
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
    raw = effect.template if bytes(effect.template) not in _NOTHING else msgspec.Raw(b"{}")
    if not has_patch and effect.item is None:
        return raw
    template, patch = msgspec.json.decode(bytes(raw)), decoded(bytes(effect.entry.patch)) if has_patch else {}
    has_output = effect.entry.loop is not None and bool(effect.entry.loop.items_from)
    if has_output or patch_of(effect.entry) is not None:
        check_scripts(template, patch, effect.entry)
        patch = substituted(patch, lambda reference, _: effect.values.get(reference.source))
    spec = patched(template, patch)
    if effect.item is None:
        return spec
    # an item of the spec may refer to other variables by `$(NAME)`; an output must not
    return _with_item(spec, effect.item.replace("$", "$$") if has_output else effect.item)


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
