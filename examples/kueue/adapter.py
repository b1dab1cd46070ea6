"""An adapter between Pyroclast's Jobs and Kueue: a Workload for each Job with a queue of Kueue, and `spec.suspend` by its state.

Kueue looks at Workloads and not at their owners, so it needs no change. What Kueue's own integrations do for their kinds, this
program does for Jobs with the label `kueue.x-k8s.io/queue-name`. Run it with the rights in `rights.yaml`:

    python adapter.py [KUBECONFIG]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from pyroclast.api.keys import KUEUE_QUEUE
from pyroclast.api.records import Condition, Job
from pyroclast.api.records.meta import ObjectRecord, Wire
from pyroclast.api.types import JOBS, PRIORITY_CLASSES, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, Conflict, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.gang.members import is_managed_elsewhere, named
from pyroclast.lifecycle.merging import controller_reference
from pyroclast.lifecycle.times import format_time

WORKLOADS = ResourceType("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
OVER = {"Completed": "Succeeded", "Failed": "Failed", "Terminated": "Failed"}


class WorkloadStatus(Wire, frozen=True, kw_only=True):
    """What Kueue has decided. `admission` is None without reserved quota."""

    admission: Mapping[str, Any] | None = None
    conditions: tuple[Condition, ...] = ()


class Workload(ObjectRecord, frozen=True, kw_only=True):
    """A Workload of Kueue."""

    status: WorkloadStatus = WorkloadStatus()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type if it is true."""
        return next((each for each in self.status.conditions if each.type == type_ and each.status == "True"), None)


class Adapter:
    """Keeps the Workload of each Job, and suspends or resumes the Job."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.jobs: Informer[Job] = Informer(client, JOBS, Job)
        self.workloads: Informer[Workload] = Informer(client, WORKLOADS, Workload)
        self._work: asyncio.Queue[Key] = asyncio.Queue()
        self.jobs.on_change(self._job)
        self.workloads.on_change(self._workload)

    def _job(self, old: Job | None, new: Job | None) -> None:
        if (found := new or old) is not None:
            self._work.put_nowait(found.key)

    def _workload(self, old: Workload | None, new: Workload | None) -> None:
        found = new or old
        owner = found.metadata.controller if found is not None else None
        if found is not None and owner is not None and owner.kind == JOBS.kind:
            self._work.put_nowait(Key(found.metadata.namespace, owner.name))

    async def run(self) -> None:
        """Work until cancelled. An object that changed meanwhile is looked at again after a second."""
        await asyncio.gather(self.jobs.synced(), self.workloads.synced())
        while True:
            key = await self._work.get()
            try:
                await self._reconcile(key)
            except (Conflict, NotFound, AlreadyExists):
                asyncio.get_running_loop().call_later(1, self._work.put_nowait, key)

    async def _reconcile(self, key: Key) -> None:
        job = self.jobs.get(key)
        if job is None or KUEUE_QUEUE not in job.metadata.labels or is_managed_elsewhere(job) or job.metadata.is_terminating:
            return
        workload = self.workloads.get(Key(key.namespace, f"job-{job.metadata.name[:50]}-{job.metadata.uid[:8]}"))
        phase = job.status.state.phase.value
        if phase in OVER:
            if workload is not None and workload.condition("Finished") is None:
                message = job.status.state.message
                await self._set(workload, {"type": "Finished", "status": "True", "reason": OVER[phase], "message": message})
        elif workload is None:
            await self._suspend(job, True)
            await self._client.create(WORKLOADS, await self._made(job))
        elif (evicted := workload.condition("Evicted")) is not None:
            await self._suspend(job, True)
            if workload.status.admission is not None and phase in ("", "Pending") and not job.status.pending + job.status.running:
                again = "True" if evicted.reason in ("Preempted", "NodeFailures") else "False"
                await self._set(
                    workload,
                    {"type": "Requeued", "status": again, "reason": evicted.reason, "message": evicted.message},
                    {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": evicted.message},
                    {
                        "type": "Admitted",
                        "status": "False",
                        "reason": "NoReservation",
                        "message": "The workload has no reservation",
                    },
                    admission=None,
                )
        else:
            await self._suspend(job, workload.condition("Admitted") is None)

    async def _suspend(self, job: Job, suspended: bool) -> None:
        if job.spec.suspend is not suspended:
            patch = {"metadata": {"uid": job.metadata.uid}, "spec": {"suspend": suspended}}
            await self._client.patch(JOBS, job.key, patch, PatchKind.MERGE)

    async def _set(self, workload: Workload, *conditions: dict[str, str], **status: None) -> None:
        """Write conditions of a Workload that nobody has changed since."""
        now = format_time(self._client.now())
        present = {each.type: msgspec.to_builtins(each) for each in workload.status.conditions}
        present |= {each["type"]: {**each, "lastTransitionTime": now} for each in conditions}
        meta = {"uid": workload.metadata.uid, "resourceVersion": workload.metadata.resource_version}
        body = {"metadata": meta, "status": {**status, "conditions": list(present.values())}}
        await self._client.patch(WORKLOADS, workload.key, body, PatchKind.MERGE, subresource="status")

    async def _made(self, job: Job) -> dict[str, Any]:
        """Return the Workload of `job`: one pod set for each task, the queue of Kueue, and the priority of the Job."""
        spec: dict[str, Any] = {"queueName": job.metadata.labels[KUEUE_QUEUE]}
        spec["podSets"] = [
            {"name": task.name, "count": task.replicas, "template": msgspec.json.decode(bytes(task.template))}
            for task in named(job).spec.tasks
        ]
        if name := job.spec.priority_class_name:
            found = await self._client.get(PRIORITY_CLASSES, Key("", name))
            spec["priority"] = found["value"]
            spec["priorityClassRef"] = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
        meta = {
            "name": f"job-{job.metadata.name[:50]}-{job.metadata.uid[:8]}",
            "namespace": job.metadata.namespace,
            "labels": {"kueue.x-k8s.io/job-uid": job.metadata.uid},
            "ownerReferences": [controller_reference(JOBS, job.metadata)],
        }
        return {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": meta, "spec": spec}


async def main(kubeconfig: str | None) -> None:
    """Run the adapter."""
    async with Client(load_config(kubeconfig or "")) as client:
        adapter = Adapter(client)
        async with asyncio.TaskGroup() as group:
            for work in (adapter.jobs.run(), adapter.workloads.run(), adapter.run()):
                group.create_task(work)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
