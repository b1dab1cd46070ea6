"""What a Job leaves behind that is deleted without its dependents: pods and a PodGroup that nobody owns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyroclast.api import keys
from pyroclast.api.records import Pod, PodGroup
from pyroclast.api.types import Key
from pyroclast.lifecycle.gang import members

__all__ = ["are_alive", "group_of", "job_of", "job_uid", "key_of"]

_NAME: Final = re.compile(r"(.+)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def job_of(group: PodGroup) -> Key | None:
    """The key of the Job that `group` was made for; None when it has an owner, or was not made for a Job."""
    found = None if group.metadata.owner_references else _NAME.fullmatch(group.metadata.name)
    return Key(group.metadata.namespace, found[1]) if found else None


def job_uid(group: PodGroup) -> str:
    """The uid of the Job that `group` was made for; empty when its name has none."""
    found = _NAME.fullmatch(group.metadata.name)
    return found[2] if found else ""


def key_of(pod: Pod) -> Key | None:
    """The key of the Job that `pod` was made for; None when somebody owns it, or it is no Job's."""
    name = pod.metadata.annotations.get(keys.JOB_NAME)
    return Key(pod.metadata.namespace, name) if name and not pod.metadata.owner_references else None


def group_of(pod: Pod) -> Key | None:
    """The key of the PodGroup that `pod` belongs to; None when somebody owns it, or it is in none."""
    name = pod.metadata.annotations.get(keys.GROUP_NAME)
    return Key(pod.metadata.namespace, name) if name and not pod.metadata.owner_references else None


def are_alive(pods: Iterable[Pod]) -> bool:
    """Whether one of `pods` still holds a place."""
    return not all(members.is_finished(pod) for pod in pods)
