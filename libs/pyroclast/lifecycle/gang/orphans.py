"""Orphans: pods and PodGroups without an owner, which remain when a Job is deleted without its dependents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyroclast.api import keys
from pyroclast.api.records import Pod, PodGroup
from pyroclast.api.types import Key
from pyroclast.lifecycle.gang import members

_NAME: Final = re.compile(r"(.+)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def job_of(group: PodGroup) -> Key | None:
    """Return the key of the Job for which `group` was created; None when `group` has an owner, or was not created for a Job."""
    found = None if group.metadata.owner_references else _NAME.fullmatch(group.metadata.name)
    return Key(group.metadata.namespace, found[1]) if found else None


def job_uid(group: PodGroup) -> str:
    """Return the UID of the Job for which `group` was created; empty when the name of `group` has none."""
    found = _NAME.fullmatch(group.metadata.name)
    return found[2] if found else ""


def key_of(pod: Pod) -> Key | None:
    """Return the key of the Job for which `pod` was created; None when `pod` has an owner, or was not created for a Job."""
    name = pod.metadata.annotations.get(keys.JOB_NAME)
    return Key(pod.metadata.namespace, name) if name and not pod.metadata.owner_references else None


def group_of(pod: Pod) -> Key | None:
    """Return the key of the PodGroup of `pod`; None when `pod` has an owner, or belongs to no PodGroup."""
    name = pod.metadata.annotations.get(keys.GROUP_NAME)
    return Key(pod.metadata.namespace, name) if name and not pod.metadata.owner_references else None


def are_alive(pods: Iterable[Pod]) -> bool:
    """Whether one of `pods` has not finished, and so still occupies its node."""
    return not all(members.is_finished(pod) for pod in pods)
