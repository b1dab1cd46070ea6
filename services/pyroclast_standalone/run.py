"""The command `pyroclast run`: submits manifests and follows the objects to their end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.pod_groups_on_pods import group_of
from pyroclast.api.records import HyperJob, Job, JobFlow, ObjectRecord, Pod, PodGroup
from pyroclast.api.types import CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES, JOBS, POD_GROUPS, PODS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast_standalone import following, manifests
from pyroclast_standalone.directory import CommandError, require_answer
from pyroclast_standalone.following import QUIET_SECONDS, Display, Progress, flow_progress
from pyroclast_standalone.manifests import Catalogue, Manifest

ENDING: Final[Mapping[ResourceType, type[ObjectRecord]]] = {JOBS: Job, JOB_FLOWS: JobFlow, HYPER_JOBS: HyperJob, PODS: Pod}


def has_end(kind: ResourceType, manifest: Mapping[str, Any]) -> bool:
    """Return whether an object ends by itself, so that it has an outcome."""
    if kind == PODS:
        return ((manifest.get("spec") or {}).get("restartPolicy") or "Always") != "Always"
    return kind in ENDING


def progress_of(kind: ResourceType, found: dict[str, Any]) -> Progress:
    """Return the progress of an object that ends by itself, computed only from the object."""
    return _progress(record_of(found, ENDING[kind]), None)


class View:
    """The followed objects of one namespace, and the watched Jobs, PodGroups and pods that show their progress.

    `followed`: the UIDs of the followed objects, by kind and key. `changed`: called when any of the objects has changed.
    """

    def __init__(
        self, client: Client, namespace: str, followed: Mapping[ResourceType, Mapping[Key, str]], changed: Callable[[], None]
    ) -> None:
        self._followed = [
            (kind, key, uid) for kind, uids in followed.items() for key, uid in uids.items() if key.namespace == namespace
        ]
        self.jobs = Informer(client, JOBS, Job, namespace=namespace, indexers={"owner": _owner_of})
        self.groups = Informer(client, POD_GROUPS, PodGroup, namespace=namespace)
        self.pods = Informer(client, PODS, Pod, namespace=namespace, indexers={"job": _job_of})
        own: dict[ResourceType, Informer[Any]] = {JOBS: self.jobs, PODS: self.pods}
        for kind, record in ENDING.items():
            if kind in followed and kind not in own:
                own[kind] = Informer(client, kind, record, namespace=namespace)
        self._own = own
        self.informers: tuple[Informer[Any], ...] = (*own.values(), self.groups)
        for informer in self.informers:
            informer.on_change(lambda _old, _new: changed())

    async def synced(self) -> None:
        """Wait until all objects have been listed once."""
        for informer in self.informers:
            await informer.synced()

    def progress(self) -> dict[tuple[ResourceType, Key], Progress]:
        """Return the progress of each followed object."""
        found: dict[tuple[ResourceType, Key], Progress] = {}
        for kind, key, uid in self._followed:
            record = self._own[kind].get(key)
            if record is None or record.metadata.uid != uid:
                raise CommandError(f"{kind.kind.lower()} {key} was deleted while it was followed")
            found[kind, key] = _progress(record, self)
        return found

    def of_job(self, job: Job) -> Progress:
        """Return the progress of a Job from its PodGroup and its pods."""
        group = self.groups.get(Key(job.metadata.namespace, f"{job.metadata.name}-{job.metadata.uid}"))
        pods = self.pods.by_index("job", job.metadata.name)
        return following.progress(job, group or next(filter(None, map(group_of, pods)), None), pods)


def _progress(record: ObjectRecord, view: View | None) -> Progress:
    match record:
        case Job():
            return view.of_job(record) if view else following.progress(record, None, ())
        case JobFlow():
            jobs = view.jobs.by_index("owner", record.metadata.uid) if view else ()
            return flow_progress(record, {job.metadata.name: view.of_job(job) for job in jobs} if view else {})
        case HyperJob():
            return following.hyper_job_progress(record)
        case Pod():
            return following.pod_progress(record)
    raise TypeError(f"{type(record).__name__} has no end")


def _owner_of(job: Job) -> list[str]:
    owner = job.metadata.controller
    return [owner.uid] if owner is not None else []


def _job_of(pod: Pod) -> list[str]:
    name = pod.metadata.annotations.get(keys.JOB_NAME)
    return [name] if name else []


USER_AGENT = "pyroclast-run"
FIELD_MANAGER = "pyroclast-run"
GONE_SECONDS = 60.0
KUBECTL_NAMES = {JOBS: "vcjob", JOB_FLOWS: "jobflow,vcjob", HYPER_JOBS: "hyperjob,vcjob", PODS: "pods", CRON_JOBS: "cronvcjob"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether all objects with an end were successful, and the arguments for `kubectl get` to see them."""

    is_successful: bool
    kinds: str


@dataclass(slots=True)
class _Submitted:
    followed: dict[ResourceType, dict[Key, str]] = field(default_factory=dict)  # UID by key
    objects: list[tuple[ResourceType, Key]] = field(default_factory=list)  # created objects


async def submit_and_follow(kubeconfig: Path, objects: Sequence[Manifest], display: Display) -> Outcome:
    """Create all `objects`, or none if one is rejected. Show the progress of those with an end until they have ended."""
    cluster = load_config(str(kubeconfig))
    async with Client(cluster, user_agent=USER_AGENT, on_warning=lambda text: display.say(f"Warning: {text}")) as client:
        await require_answer(client, f"--kubeconfig {kubeconfig}")
        submitted = await _submit(client, objects, display)
        is_successful = not submitted.followed or await _follow(client, submitted.followed, display)
        shown = submitted.followed or [kind for kind, _ in submitted.objects]
        kinds = [name for kind in shown for name in KUBECTL_NAMES.get(kind, kind.qualified).split(",")]
        return Outcome(is_successful, ",".join(dict.fromkeys(kinds)) or "vcjob")


async def _submit(client: Client, objects: Sequence[Manifest], display: Display) -> _Submitted:
    catalogue = Catalogue(client)
    typed = [(await catalogue.type_of(manifest), manifest) for manifest in objects]
    done = _Submitted()
    for kind, manifest in typed:
        key = manifests.key_of(manifest, kind)
        try:
            if key.name and has_end(kind, manifest):
                await _clear_finished(client, kind, key, display)
            created = await _create(client, kind, key, manifest)
        except (ApiError, ConnectionFailed) as error:
            left = await _take_back(client, done)
            raise CommandError(f"{kind.qualified} {key}: {error.message}{_causes(error)}{left}") from error
        except CommandError as error:
            raise CommandError(f"{error}{await _take_back(client, done)}") from error
        if created is None:
            display.say(f"{kind.qualified}/{key.name} unchanged")
            continue
        key = Key(created["metadata"].get("namespace", ""), created["metadata"]["name"])
        display.say(f"{kind.qualified}/{key.name} created")
        done.objects.append((kind, key))
        if has_end(kind, created):
            done.followed.setdefault(kind, {})[key] = created["metadata"]["uid"]
        elif kind == CRON_JOBS:
            display.say(f"{kind.qualified}/{key.name} makes Jobs until it is deleted: it has no end that could be followed")
    return done


async def _create(client: Client, kind: ResourceType, key: Key, manifest: Manifest) -> dict[str, Any] | None:
    """Create an object. None when an object with all fields of `manifest` exists already, as after an earlier run."""
    try:
        return await client.create(kind, manifest, namespace=key.namespace, field_manager=FIELD_MANAGER, strict=True)
    except AlreadyExists:
        found = await client.get(kind, key)
        if manifests.has_all(found, manifest):
            return None
        raise CommandError(
            f"{kind.qualified} {key} exists and is another: `kubectl apply` this, delete that, or choose another metadata.name"
        ) from None


async def _clear_finished(client: Client, kind: ResourceType, key: Key, display: Display) -> None:
    """Delete a finished object of the same name from an earlier run. An object that still runs is not changed."""
    try:
        found = await client.get(kind, key)
    except NotFound:
        return
    now, name = progress_of(kind, found), kind.kind.lower()
    if not now.is_finished:
        raise CommandError(
            f"{name} {key} exists and is {now.phase}: wait for its end, delete it, or choose another metadata.name"
        )
    display.say(f"{name} {key} is {now.phase} from an earlier run: replacing it")
    await client.delete(kind, key, uid=found["metadata"]["uid"], propagation="Foreground")
    try:
        async with asyncio.timeout(GONE_SECONDS):
            with contextlib.suppress(NotFound):
                while True:
                    await client.get(kind, key)
                    await asyncio.sleep(0.05)
    except TimeoutError:
        waited = f"still there {GONE_SECONDS:.0f} s after its deletion"
        raise CommandError(f"{name} {key} from an earlier run is {waited}: its metadata.finalizers tell what holds it") from None


async def _take_back(client: Client, done: _Submitted) -> str:
    """Delete the created objects. Return the result as text."""
    kept = []
    for kind, key in reversed(done.objects):
        try:
            if kind in (JOB_FLOWS, JOB_TEMPLATES):  # a running flow protects these objects
                allow = {"metadata": {"annotations": {keys.FORCE_DELETE: "true"}}}
                await client.patch(kind, key, allow, PatchKind.MERGE)
            await client.delete(kind, key)
        except NotFound:
            continue
        except KubeError as error:
            kept.append(f"{kind.qualified} {key}: {error.message}")
    if kept:
        return f" (what was created before it could not all be deleted again: {'; '.join(kept)})"
    return f" (what was created before it was deleted again: {len(done.objects)})" if done.objects else ""


def _causes(error: ApiError | ConnectionFailed) -> str:
    causes = error.details.get("causes", []) if isinstance(error, ApiError) else []
    lines = [f"\n  * {cause.get('field')}: {cause.get('message')}" for cause in causes if cause.get("field")]
    return "".join(dict.fromkeys(lines))


async def _follow(client: Client, followed: Mapping[ResourceType, Mapping[Key, str]], display: Display) -> bool:
    changed = asyncio.Event()
    namespaces = {key.namespace for keys_of_kind in followed.values() for key in keys_of_kind}
    watched = [View(client, namespace, followed, changed.set) for namespace in sorted(namespaces)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()) for view in watched for informer in view.informers]
        for view in watched:
            await view.synced()
        while True:
            changed.clear()
            current = {
                key if len(followed) == 1 else f"{kind.kind.lower()} {key}": now
                for view in watched
                for (kind, key), now in view.progress().items()
            }
            held_back = sum(not display.show(str(name), now) for name, now in current.items())
            if all(now.is_finished for now in current.values()):
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), QUIET_SECONDS if held_back else None)
        for task in tasks:
            task.cancel()
    display.say("")
    return all(now.is_successful for now in current.values())
