"""The objects to which a command applies, by namespace, labels, queue and user, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, JOBS, Key, ResourceType
from pyroclast.kube.basics.errors import Forbidden, NotFound
from pyroclast.kube.http.native_groups import kind_served
from pyroclast.kube.http.waiting_queries import list_groups, schedulers_at_work
from pyroclast.views.groups import own_groups, plain_waiter, queue_of
from pyroclast.views.jobs import Group, Waiter, groups_by_owner, waiter_of
from pyroclast_cli.flags import Context, Failure, Flag

NO_SUCH_OBJECT: Final = 4
"""The exit status of a command whose object does not exist."""
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
    """Return the namespace of a command about one object."""
    return context.text("namespace") or context.client.config.namespace


def namespaces_of(context: Context) -> str:
    """Return the namespace of a list. Empty means all namespaces."""
    return "" if context.is_set("all-namespaces") else namespace_of(context)


def is_selected(job: Mapping[str, Any], context: Context) -> bool:
    """Return whether a Job belongs to the requested queue and user."""
    queue, user = context.text("queue"), context.text("user")
    by = (job["metadata"].get("annotations") or {}).get(keys.SUBMITTED_BY, "")
    return (not queue or (job.get("spec") or {}).get("queue", "default") == queue) and (not user or by == user)


def job_key(context: Context, *, kinds: tuple[str, ...] = ("job", "jobs", "vcjob", "vj")) -> Key:
    """Return the key of the Job that the first argument names, as `NAME` or `job/NAME`."""
    if len(context.arguments) != 1:
        raise Failure(f"name one Job, as NAME or job/NAME; there are {len(context.arguments)} names")
    kind, _, name = context.arguments[0].rpartition("/")
    if kind and kind.lower() not in kinds:
        raise Failure(f'"{kind}" is no kind that this command knows; name a Job as NAME or job/NAME')
    if not name:
        raise Failure("the name of the Job is missing behind the slash")
    return Key(namespace_of(context), name)


async def named_job(context: Context) -> tuple[Key, dict[str, Any]]:
    """Return the Job that the first argument names, with its key."""
    key = job_key(context)
    return key, await existing(context, JOBS, key, f"Job {key}")


async def existing(context: Context, kind: ResourceType, key: Key, label: str) -> dict[str, Any]:
    """Return the object of that kind and key."""
    try:
        return await context.client.get(kind, key)
    except NotFound:
        raise Failure(f"there is no {label}", status=NO_SUCH_OBJECT) from None


if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # only imported at run time by commands that need a cluster


async def jobs_of(context: Context) -> tuple[list[Waiter], list[Waiter]]:
    """Return the Jobs that the flags of the command select, and the selected PodGroups of Volcano that belong to no Job.

    Nobody knows the user of a PodGroup, and its labels are not those of a Job, so there are none with `--user` and `--selector`.
    """
    views, groups = await _views_in(context.client, namespaces_of(context), context.text("selector"))
    plain = [] if context.text("user") or context.text("selector") else filter(None, map(plain_waiter, groups))
    queue = context.text("queue")
    return [view for view in views if is_selected(view.job, context)], [each for each in plain if queue in {"", each.queue}]


async def views_in(client: Client, namespace: str) -> list[Waiter]:
    """Return the Jobs of a namespace, or of all namespaces if `namespace` is empty."""
    return (await _views_in(client, namespace, ""))[0]


async def _views_in(client: Client, namespace: str, selector: str) -> tuple[list[Waiter], Sequence[Group]]:
    jobs, _ = await client.list(JOBS, namespace, label_selector=selector)
    groups = await list_groups(client, namespace)
    by_owner = groups_by_owner(groups)
    at_work = await schedulers_at_work(client)
    return [waiter_of(job, by_owner.get(job["metadata"]["uid"]), at_work) for job in jobs], groups


async def entries_that_wait(client: Client, namespace: str, selector: str = "") -> list[Waiter]:
    """Return the entries of flows whose Jobs were not created yet. Empty when the user may not list flows."""
    try:
        flows, _ = await client.list(JOB_FLOWS, namespace, label_selector=selector)
    except Forbidden:
        return []
    if not flows:
        return []
    from pyroclast.views.flows import open_entries  # noqa: PLC0415 - imports the engine of expressions, for flows alone

    return [entry for flow in flows for entry in open_entries(flow)]


async def natives_of(context: Context) -> list[Group]:
    """Return the native PodGroups that the flags select, without those that represent a Job of Pyroclast.

    Native PodGroups have no recorded submitter, so the result is empty with `--user`.
    """
    if context.text("user"):
        return []
    try:
        kind = await kind_served(context.client)
        if kind is None:
            return []
        groups, _ = await context.client.list(kind, namespaces_of(context), label_selector=context.text("selector"))
    except Forbidden:
        return []
    queue = context.text("queue")
    return [each for each in own_groups(groups) if not queue or queue_of(each) == queue]
