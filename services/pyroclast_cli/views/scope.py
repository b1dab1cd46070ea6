"""Which objects a command is about: namespace, labels, queue, user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOBS, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag

__all__ = [
    "ALL_NAMESPACES",
    "NAMESPACE",
    "NO_SUCH_OBJECT",
    "SCOPE_FLAGS",
    "existing",
    "is_selected",
    "job_key",
    "named_job",
    "namespace_of",
    "namespaces_of",
]

NO_SUCH_OBJECT: Final = 4
"""The exit status of a command about an object that is not there."""
NAMESPACE: Final = Flag("namespace", "n", "", "the namespace, by default that of the kubeconfig's context")
ALL_NAMESPACES: Final = Flag("all-namespaces", "A", default=False, text="all namespaces", kind="bool")
SCOPE_FLAGS: Final = (
    NAMESPACE,
    ALL_NAMESPACES,
    Flag("selector", "l", "", "labels of the Jobs, such as team=a,stage!=test"),
    Flag("queue", "q", "", "only Jobs of this queue"),
    Flag("user", "u", "", "only Jobs that this user submitted"),
)


def namespace_of(context: Context) -> str:
    """The namespace that a command with one object is about."""
    return context.text("namespace") or context.client.config.namespace


def namespaces_of(context: Context) -> str:
    """The namespace that a list is about; empty for all."""
    return "" if context.is_set("all-namespaces") else namespace_of(context)


def is_selected(job: Mapping[str, Any], context: Context) -> bool:
    """Whether a Job is of the queue and the user that were asked for."""
    queue, user = context.text("queue"), context.text("user")
    by = (job["metadata"].get("annotations") or {}).get(keys.SUBMITTED_BY, "")
    return (not queue or (job.get("spec") or {}).get("queue", "default") == queue) and (not user or by == user)


def job_key(context: Context, *, kinds: tuple[str, ...] = ("job", "jobs", "vcjob", "vj")) -> Key:
    """The Job that the first argument names, as `NAME` or `job/NAME`.

    Raises:
        Failure: no argument, more than one, or another kind.
    """
    if len(context.arguments) != 1:
        raise Failure(f"name one Job, as NAME or job/NAME; there are {len(context.arguments)} names")
    kind, _, name = context.arguments[0].rpartition("/")
    if kind and kind.lower() not in kinds:
        raise Failure(f'"{kind}" is no kind that this command knows; name a Job as NAME or job/NAME')
    if not name:
        raise Failure("the name of the Job is missing behind the slash")
    return Key(namespace_of(context), name)


async def named_job(context: Context) -> tuple[Key, dict[str, Any]]:
    """The Job that the first argument names, with its key.

    Raises:
        Failure: as `job_key`, or there is no such Job, with status 4.
    """
    key = job_key(context)
    return key, await existing(context, JOBS, key, f"Job {key}")


async def existing(context: Context, kind: ResourceType, key: Key, label: str) -> dict[str, Any]:
    """The object of that kind and key.

    Raises:
        Failure: there is none, with status 4; the message calls it `label`.
    """
    try:
        return await context.client.get(kind, key)
    except NotFound:
        raise Failure(f"there is no {label}", status=NO_SUCH_OBJECT) from None
