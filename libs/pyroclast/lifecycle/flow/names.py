"""The names of the Jobs of a flow, and the labels and annotations that tie a Job to its flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyroclast.api import keys
from pyroclast.api.records import Job, JobFlow
from pyroclast.api.types import JOB_FLOWS, Key

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


def flows_of(job: Job) -> Iterator[Key]:
    """Yield the flow whose status counts `job`: the flow that controls the Job, else the flow that its label names."""
    meta = job.metadata
    owner = meta.controller
    if owner is not None and owner.kind == JOB_FLOWS.kind and owner.api_version == JOB_FLOWS.api_version:
        yield Key(meta.namespace, owner.name)
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
