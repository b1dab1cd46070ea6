"""What the pods of a Job have put out: the termination messages of their main containers, kept in the status of the Job.

The Job controller collects them because it alone sees the end of each pod in the same write as the end of the Job. So a flow that
sees a completed Job sees its outputs, also after the pods are gone. Jobs outside of flows keep none: nobody would read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import Job, JobStatus, Pod, PodOutput
from pyroclast.api.types import JOB_FLOWS
from pyroclast.lifecycle.gang.members import ObservedPods, is_finished
from pyroclast.lifecycle.job.status import was_resumed

MOST_BYTES: Final = 65_536
"""The most bytes of the outputs of one Job in JSON: sixteen full messages. A status may have 1.5 MB, and is written often."""

_MAIN: Final = "kubectl.kubernetes.io/default-container"
"""The annotation that names the main container where others, such as those of a service mesh, come before it."""

_OF_THE_RUNTIME: Final = frozenset({"ContainerCannotRun", "StartError", "ContainerStatusUnknown"})
"""Reasons of ends for which the message is the text of the container runtime or of the kubelet."""


def collected(job: Job, pods: ObservedPods, status: JobStatus) -> JobStatus:
    """Return `status` with the outputs of the pods that ended, if `job` belongs to a flow.

    A pod that is gone keeps its output, until a restart begins or another pod takes its place. After the end of the Job, its
    outputs stay as they are.
    """
    if job.metadata.controller_of(JOB_FLOWS) is None or job.status.state.phase.is_finished:
        return status
    found = tuple(_outputs(pods, status))
    size = len(msgspec.json.encode(found))
    if size <= MOST_BYTES:
        return msgspec.structs.replace(status, outputs=found, outputs_omitted="")
    said = f"the outputs of {len(found)} pods have {size} bytes, at most {MOST_BYTES} are kept; write large results to a volume"
    return msgspec.structs.replace(status, outputs=(), outputs_omitted=said)


def _outputs(pods: ObservedPods, status: JobStatus) -> Iterator[PodOutput]:
    restarts = status.state.phase is JobPhase.RESTARTING and not was_resumed(status)
    before = {} if restarts else {(each.task, each.index): each for each in status.outputs}
    for task, replicas in pods.replicas.items():
        present = pods.places[task]
        gone = [index for other, index in before if other == task and index < replicas and index not in present]
        for index in sorted((*present, *gone)) if gone else present:
            if index not in present:
                yield before[task, index]
                continue
            name = present[index]
            state = pods.states[name]
            is_old = state.is_marked or (restarts and state.version < status.version)
            if not is_old and (message := message_of(pods.by_name[name])):
                yield PodOutput(task=task, index=index, message=message)


def message_of(pod: Pod) -> str:
    """Return the termination message of the main container of `pod`; empty while the pod has not ended, or without a message."""
    if not is_finished(pod) or not pod.spec.containers:
        return ""
    main = pod.metadata.annotations.get(_MAIN) or pod.spec.containers[0].name
    for each in pod.status.container_statuses:
        end = each.state.terminated
        if each.name == main and end is not None and end.reason not in _OF_THE_RUNTIME:
            return end.message.rstrip("\r\n")
    return ""
