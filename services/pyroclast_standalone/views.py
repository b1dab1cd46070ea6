"""The objects that `pyroclast run` watches in a namespace: the followed objects, and those that show their progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.records import HyperJob, Job, JobFlow, ObjectRecord, Pod, PodGroup
from pyroclast.api.types import HYPER_JOBS, JOB_FLOWS, JOBS, POD_GROUPS, PODS, Key, ResourceType
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast_standalone import following
from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.following import Progress
from pyroclast_standalone.following_flows import flow_progress

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

    Args:
        client: the client of the API server.
        namespace: the namespace to watch.
        followed: the UIDs of the followed objects, by kind and key.
        changed: called when any of the objects has changed.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        followed: Mapping[ResourceType, Mapping[Key, str]],
        changed: Callable[[], None],
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
        """Return the progress of each followed object.

        Raises:
            CommandError: an object was deleted.
        """
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
        return following.progress(job, group, self.pods.by_index("job", job.metadata.name))


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
