"""The creation and deletion of the objects of a Job's plugins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Job, Meta, reading
from pyroclast.api.types import JOBS, SECRETS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from pyroclast.kube.http.batches import at_once
from pyroclast.kube.http.client import Client, Json, PatchKind
from pyroclast.kube.http.response_records import found
from pyroclast.lifecycle.effects import Notice, warning
from pyroclast.lifecycle.gang.members import is_ours
from pyroclast.lifecycle.jobplugins import PluginError, PluginObject
from pyroclast.lifecycle.merging import controller_reference, merge_patch
from pyroclast_job_controller.blocked import Blocked, TransientError, explained, unusable
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.plugins.registry import body_of, check, make, names_of, plugins_of, translated

log = structlog.get_logger()

_FAILED = "Execute plugin when job add failed, err: "


class PluginActions:
    """Carries out the effects on plugin objects. `record`: records an Event on a Job."""

    def __init__(self, client: Client, record: Callable[[Job, Notice], None]) -> None:
        self._client, self._record = client, record

    async def prepare(self, job: Job, memory: JobMemory) -> None:
        """Create or update the objects of all plugins. An object of another owner with the same name is never changed.

        Raises:
            Blocked: a plugin is unknown or unusable, another owner has the name, or the API server refuses an object.
            TransientError: an object of an earlier Job with the same name is still being deleted.
            KubeError: a write failed or has no known result; some objects may exist already.
        """
        known = bool(memory.objects) or job.status.observed_generation > 0
        with _usable():
            plugins = plugins_of(job)
            for plugin in plugins:
                if plugin.flags.mistake:
                    log.warning("plugin.argument", job=str(job.key), plugin=plugin.name, reason=plugin.flags.mistake)
            check(plugins, job)
            wanted: list[PluginObject] = []
            for plugin in plugins:
                with translated(plugin.name):
                    wanted += plugin.objects(job)
        for item in wanted:
            try:
                await self._ensure(job, memory, item, look_first=known)
            except ApiError as error:
                raise explained(error, JobEventReason.PLUGIN_ERROR, _FAILED) from error
        if known and job.metadata.generation > 1:
            await self._shorten(job, wanted)
        texts: list[str] = []
        for plugin in plugins:
            with _usable(), translated(plugin.name):
                texts += plugin.warnings(job)
        for text in texts:
            self._record(job, warning(JobEventReason.VARIABLE_LEFT_OUT, text))
        memory.prepared, memory.removed = job.metadata.generation, False

    async def remove(self, job: Job, memory: JobMemory) -> None:
        """Delete the plugin objects of `job`, except objects that a plugin keeps after the end of the Job."""

        async def delete(item: PluginObject) -> None:
            key = Key(job.metadata.namespace, item.name)
            try:
                uid = memory.objects.get(_label(item)) or _uid(job, await self._read(item.kind, key))
                if uid:
                    await self._client.delete(item.kind, key, uid=uid)
            except (NotFound, Conflict):
                log.debug("plugin_object.gone", job=str(job.key), kind=item.kind.kind, name=item.name)

        errors = await at_once(_removable(job), delete)
        if errors:
            raise errors[0]
        memory.objects.clear()
        memory.prepared, memory.removed = 0, True

    async def _ensure(self, job: Job, memory: JobMemory, item: PluginObject, *, look_first: bool) -> None:
        key = Key(job.metadata.namespace, item.name)
        if look_first:
            if (there := await found(self._read(item.kind, key))) is not None:
                await self._update(job, memory, item, there)
                return
            log.info("plugin_object.missing", job=str(job.key), kind=item.kind.kind, name=item.name)
        try:
            created = await self._client.create(item.kind, await _manifest(job, item))
            memory.objects[_label(item)] = created["metadata"]["uid"]
        except AlreadyExists:
            await self._update(job, memory, item, await self._read(item.kind, key))

    async def _shorten(self, job: Job, wanted: Sequence[PluginObject]) -> None:
        """Delete the surplus objects of a numbered series, which were created for a larger scale of the Job."""
        lengths = Counter(item.series for item in wanted if item.series is not None)
        kinds = {item.series: item.kind for item in wanted}
        for series, length in lengths.items():
            for number in count(length):
                key = Key(job.metadata.namespace, series(number))
                try:
                    uid = _uid(job, await self._read(kinds[series], key))
                    if not uid:
                        break
                    await self._client.delete(kinds[series], key, uid=uid)
                except (NotFound, Conflict):
                    break

    async def _read(self, kind: ResourceType, key: Key) -> Json:
        """Return the object `key`. A Secret is read by an empty patch, so that a stolen token reads no Secrets of others.

        The policy of the account refuses a patch of a Secret that no Job owns; {} stands for the metadata of such a Secret.
        """
        if kind is not SECRETS:
            return await self._client.get(kind, key)
        try:
            return await self._client.patch(kind, key, {}, PatchKind.MERGE)
        except Forbidden:
            return {"metadata": {"name": key.name, "namespace": key.namespace}}

    async def _update(self, job: Job, memory: JobMemory, item: PluginObject, there: Json) -> None:
        if _makes_room(job, there):
            raise TransientError(f"{item.kind.kind} {job.metadata.namespace}/{item.name} of before is still there")
        if not _uid(job, there):
            message = f"{item.kind.kind} {job.metadata.namespace}/{item.name} exists and does not belong to this job"
            if item.follows:
                raise Blocked(JobEventReason.PLUGIN_ERROR, _FAILED + message)
            self._record(job, warning(JobEventReason.PLUGIN_ERROR, f"{message}; it is used as it is"))
            return
        memory.objects[_label(item)] = there["metadata"]["uid"]
        patch = merge_patch(_picked(there, item.follows), _picked(item.body, item.follows))
        if patch:
            lock = {"uid": there["metadata"]["uid"], "resourceVersion": there["metadata"]["resourceVersion"]}
            key = Key(job.metadata.namespace, item.name)
            await self._client.patch(item.kind, key, {"metadata": lock, **patch}, PatchKind.MERGE)


@contextmanager
def _usable() -> Iterator[None]:
    """Raise Blocked for a plugin that cannot be used with the Job."""
    try:
        yield
    except PluginError as error:
        raise unusable(error, _FAILED) from error


def _removable(job: Job) -> list[PluginObject]:
    """Return the objects of all usable plugins. An unusable plugin never created objects, so it is skipped."""
    items: list[PluginObject] = []
    for name in names_of(job):
        try:
            plugin = make(job, name)
            with translated(name):
                items += plugin.removed_at_end(job)
        except PluginError as error:
            log.warning("plugin.unusable", job=str(job.key), plugin=name, reason=str(error))
    return items


async def _manifest(job: Job, item: PluginObject) -> Json:
    meta: Json = {
        "name": item.name,
        "namespace": job.metadata.namespace,
        "ownerReferences": [controller_reference(JOBS, job.metadata)],
    }
    if item.kind is SECRETS:  # the policy of the account admits no other new Secret
        meta["labels"] = {keys.JOB_NAME: job.metadata.name}
    with _usable():
        body = await asyncio.to_thread(body_of, item) if item.once else item.body
    return {"apiVersion": item.kind.api_version, "kind": item.kind.kind, "metadata": meta, **body}


def _picked(holder: Json, paths: Iterable[tuple[str, ...]]) -> Json:
    """Return a copy of `holder` with only the fields at `paths`."""
    picked: Json = {}
    for path in paths:
        value, place = holder, picked
        for name in path[:-1]:
            value, place = value.get(name) or {}, place.setdefault(name, {})
        if path[-1] in value:
            place[path[-1]] = value[path[-1]]
    return picked


def _uid(job: Job, there: Json) -> str:
    """Return the uid of the object `there` if it belongs to `job`; empty when it does not."""
    meta = reading.convert(there["metadata"], Meta)
    return meta.uid if is_ours(job, meta) else ""


def _makes_room(job: Job, there: Json) -> bool:
    """Whether the object `there` is being deleted, or belongs to an earlier Job with the same name and will be deleted."""
    meta = reading.convert(there["metadata"], Meta)
    owner = meta.controller
    of_namesake = owner is not None and owner.kind == JOBS.kind and owner.name == job.metadata.name
    return meta.is_terminating or (of_namesake and not is_ours(job, meta))


def _label(item: PluginObject) -> str:
    return f"{item.kind.qualified}/{item.name}"
