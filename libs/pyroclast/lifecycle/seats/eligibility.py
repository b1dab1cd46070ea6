"""Decides which gangs are placed before their pods exist, and why other gangs are not. No other module decides this.

Seats are for simple pods with requests, a node selector and tolerations. The pods of all other gangs are created first and bound
afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from pyroclast.api import keys, records
from pyroclast.api.enums import NumaPolicy


class SeatRefusal(StrEnum):
    """The reason, in one word, why a gang is not placed before its pods exist."""

    ADMISSION = "Admission"
    """Admission created a pod that differs from the dry run of the same template."""
    AFFINITY = "Affinity"
    """The pods have node affinity, inter-pod affinity or topology spread constraints."""
    CLAIMS = "Claims"
    """A pod uses a persistent volume claim, or another volume that restricts its nodes."""
    DEPENDS_ON = "DependsOn"
    """Pods are created after others: a task waits for another task, or the Job has an array."""
    DEVICES = "Devices"
    """A pod requests a resource other than CPU, memory and ephemeral storage, a NUMA policy, or certain devices."""
    FORWARDING = "Forwarding"
    """The queue sends its Jobs to other clusters."""
    GATES = "Gates"
    """A scheduling gate keeps a pod from being placed."""
    NODE = "Node"
    """The pod template names a node."""
    NODE_LOST = "NodeLost"
    """A node of the placement was deleted or became unschedulable before all pods were created."""
    PORTS = "Ports"
    """A pod uses a host port or the host network."""
    REFUSED = "Refused"
    """The API server refused to create a pod."""
    RESOURCE_CLAIMS = "ResourceClaims"
    """A pod uses a resource claim."""
    SCALED = "Scaled"
    """The tasks changed while pods were created on their seats."""
    SCHEDULER = "Scheduler"
    """Another scheduler places the pods."""
    SIZE = "Size"
    """The annotation would be too long, or the gang has too many pods."""
    REJECTED = "Rejected"
    """The kubelet of a node rejected a pod of the gang that was created there, after the gang had started."""
    STALLED = "Stalled"
    """The pods were not created in time."""
    STARTED = "Started"
    """The gang has started, and placing gangs before their pods exist was switched off meanwhile."""
    TOPOLOGY = "Topology"
    """The gang, or a part of the gang, has a network topology constraint."""
    UNANSWERED = "Unanswered"
    """The scheduler did not place pods in time that are created after the start of the gang."""


_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_SPECIAL: Final = (keys.NUMA_TOPOLOGY_POLICY, *keys.VGPU_CHOICES)


def refusal_of_job(job: records.Job, *, schedulers: Collection[str], forwarding: bool) -> SeatRefusal | None:
    """Return why `job` gets no seats; None if it may. `forwarding`: whether its queue sends Jobs to other clusters."""
    tasks = job.spec.tasks
    if forwarding:
        return SeatRefusal.FORWARDING
    if job.spec.scheduler_name not in schedulers:
        return SeatRefusal.SCHEDULER
    if any(task.depends_on is not None or task.array is not None for task in tasks):
        return SeatRefusal.DEPENDS_ON
    if any(volume.volume_claim_name or volume.volume_claim for volume in job.spec.volumes):
        return SeatRefusal.CLAIMS
    if job.spec.network_topology is not None or any(task.partition_policy for task in tasks):
        return SeatRefusal.TOPOLOGY
    if any(task.topology_policy not in {None, NumaPolicy.NONE} for task in tasks):
        return SeatRefusal.DEVICES
    return None


def refusal_of_pod(pod: records.Pod, *, schedulers: Collection[str]) -> SeatRefusal | None:
    """Return why a gang with `pod`, the result of a dry run by the API server, gets no seats; None if it may."""
    spec = pod.spec
    if spec.node_name:
        return SeatRefusal.NODE
    if spec.scheduler_name not in schedulers:
        return SeatRefusal.SCHEDULER
    if spec.scheduling_gates or keys.QUEUE_ALLOCATION_GATE in pod.metadata.annotations:
        return SeatRefusal.GATES
    if spec.resource_claims or any(each.resources.claims for each in _containers(spec)):
        return SeatRefusal.RESOURCE_CLAIMS
    if any(volume != records.Volume(name=volume.name) for volume in spec.volumes):
        return SeatRefusal.CLAIMS
    if not set(_resources(spec)) <= _NATIVE or any(key in pod.metadata.annotations for key in _SPECIAL):
        return SeatRefusal.DEVICES
    if spec.affinity or spec.topology_spread_constraints:
        return SeatRefusal.AFFINITY
    if spec.host_network or any(port.host_port for each in _containers(spec) for port in each.ports):
        return SeatRefusal.PORTS
    return None


def _containers(spec: records.PodSpec) -> Iterable[records.Container]:
    return (*spec.containers, *spec.init_containers)


def _resources(spec: records.PodSpec) -> Iterable[str]:
    yield from spec.overhead
    for each in (spec.resources, *(container.resources for container in _containers(spec))):
        if each is not None:
            yield from each.requests
            yield from each.limits
