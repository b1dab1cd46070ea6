"""What is written on PodGroups of Kubernetes itself, and how often."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.types import COMPOSITE_POD_GROUPS, NATIVE_POD_GROUPS, POD_GROUPS, Key, ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.kube.basics.errors import ApiError as Unavailable
from pyroclast.kube.http.client import PatchKind
from pyroclast.lifecycle.gang.groups import Group, GroupCondition, GroupSpec, GroupStatus, Hold
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import native_key
from pyroclast_scheduler.shell.native_conditions import conditions_patch
from pyroclast_scheduler.shell.writer import Writer
from tests.scenarios import objects
from tests.unit.ending import ended
from tests.unit.scheduler import natives
from tests.unit.scheduler.deciding import decided

NOW, BEFORE = "2027-01-15T08:00:00Z", "2027-01-15T07:00:00Z"
SCHEDULED = ("PodGroupInitiallyScheduled", "True", "Scheduled", "")
ADMITTED = ("pyroclast.dev/Queued", "False", "Admitted", "")
FULL = "3/3 tasks in gang unschedulable NodesFull: not now: 2 of 3 have room"
NODES_FULL = ("PodGroupInitiallyScheduled", "False", "Unschedulable", "not now: 2 of 3 have room")
QUEUED = ("pyroclast.dev/Queued", "True", "NodesFull", "not now: 2 of 3 have room")
MISSING = "PodsMissing: 2 of 3 pods present"
MIXED = Hold(PendingReason.LEFT_OUT, "got 5 and 0", is_error=True)


def group(
    phase: PodGroupPhase,
    text: str = "",
    said: Sequence[tuple[str, str, str, str]] = (),
    *,
    hold: Hold | None = None,
) -> Group:
    unschedulable = [GroupCondition(type="Unschedulable", status="True", reason="x", message=text)] if text else []
    written = tuple(
        records.NativeCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=BEFORE)
        for kind, status, reason, message in said
    )
    return Group(
        kind=NATIVE_POD_GROUPS,
        key="t/g",
        metadata=records.Meta(name="g", namespace="t", uid="u", generation=4),
        spec=GroupSpec(hold=hold),
        status=GroupStatus(phase=phase, conditions=tuple(unschedulable)),
        keeps_phase=False,
        said=written,
    )


P = PodGroupPhase
CASES = {
    "it starts": (group(P.RUNNING), [SCHEDULED, ADMITTED]),
    "it has started and says so": (group(P.RUNNING, said=[SCHEDULED, ADMITTED]), []),
    "it waits": (group(P.INQUEUE, FULL), [NODES_FULL, QUEUED]),
    "other numbers are not worth a write": (
        group(P.INQUEUE, FULL.replace("2 of", "1 of"), said=[NODES_FULL, QUEUED]),
        [],
    ),
    "how many pods are present is": (
        group(P.PENDING, MISSING, said=[
            ("PodGroupInitiallyScheduled", "False", "Unschedulable", "1 of 3 pods present"),
            ("pyroclast.dev/Queued", "True", "PodsMissing", "1 of 3 pods present"),
        ]),
        [
            ("PodGroupInitiallyScheduled", "False", "Unschedulable", "2 of 3 pods present"),
            ("pyroclast.dev/Queued", "True", "PodsMissing", "2 of 3 pods present"),
        ],
    ),
    "its pods contradict each other": (
        group(P.PENDING, "LeftOut: got 5 and 0", hold=MIXED),
        [
            ("PodGroupInitiallyScheduled", "False", "SchedulerError", "got 5 and 0"),
            ("pyroclast.dev/Queued", "True", "LeftOut", "got 5 and 0"),
        ],
    ),
    "once it has started it is not taken back": (group(P.UNKNOWN, FULL, said=[SCHEDULED, ADMITTED]), [QUEUED]),
    "nothing is known yet": (group(P.PENDING), []),
}  # fmt: skip


def made(patch: dict[str, Any] | None) -> list[tuple[str, str, str, str]]:
    found = [] if patch is None else patch["status"]["conditions"]
    return [(each["type"], each["status"], each["reason"], each["message"]) for each in found]


@pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES.keys())
def test_conditions_patch_reports_start_and_wait_and_omits_unchanged_conditions(
    given: Group, want: list[tuple[str, str, str, str]]
):
    assert made(conditions_patch(given, NOW)) == want


def test_lasttransitiontime_changes_only_when_the_status_changes():
    patch = conditions_patch(group(P.INQUEUE, FULL, said=[(*NODES_FULL[:3], "other")]), NOW)
    assert patch is not None
    assert [each["lastTransitionTime"] for each in patch["status"]["conditions"]] == [BEFORE, NOW]
    assert {each["observedGeneration"] for each in patch["status"]["conditions"]} == {4}
    assert patch["metadata"] == {"uid": "u"}


class Server:
    """Takes patches, and shows them as the watch does; refuses the first `refusals` of them."""

    def __init__(self, cache: Cache, refusals: int = 0) -> None:
        self.cache = cache
        self.refusals = refusals
        self.patches: list[tuple[float, str, list[tuple[str, str, str, str]]]] = []

    async def patch(self, kind: ResourceType, key: Key, patch: dict[str, Any], how: PatchKind, **more: Any) -> dict[str, Any]:
        if kind not in {NATIVE_POD_GROUPS, COMPOSITE_POD_GROUPS}:
            return {}
        assert (how, more["subresource"]) == (PatchKind.STRATEGIC, "status")
        self.patches.append((asyncio.get_running_loop().time(), key.name, made(patch)))
        if kind is COMPOSITE_POD_GROUPS:
            return {}
        if len(self.patches) <= self.refusals:
            raise Unavailable(503, "ServiceUnavailable", "later")
        record = next(each for each in self.cache.natives.records() if each.key == key)
        said = msgspec.convert(patch["status"]["conditions"], tuple[records.NativeCondition, ...])
        types = {each.type for each in said}
        kept = tuple(each for each in record.status.conditions if each.type not in types)
        status = records.NativePodGroupStatus(conditions=(*kept, *said))
        self.cache.natives.group_changed(record, msgspec.structs.replace(record, status=status))
        return {}


class Silent:
    def event(self, *_: Any, **__: Any) -> None:
        """Nobody listens."""


@contextlib.asynccontextmanager
async def writing_to(server: Server) -> AsyncIterator[Writer]:
    writer = Writer(server, server.cache, Silent(), now=asyncio.get_running_loop().time)  # type: ignore[arg-type]
    writing = asyncio.create_task(writer.run())
    yield writer
    await ended(writing)


async def sessions(cache: Cache, server: Server, seconds: int) -> None:
    """A session every second, with what it finds out written."""
    async with writing_to(server) as writer:
        await taken(writer, cache, seconds)


async def taken(writer: Writer, cache: Cache, seconds: int) -> None:
    """A session every second, which the writer is told of."""
    for _ in range(seconds):
        outcome, _ = decided(cache, natives.SETTINGS)
        await writer.take(outcome)
        await asyncio.sleep(1)


@pytest.mark.looptime
async def test_podgroup_conditions_are_written_on_change_and_at_most_every_5_seconds():
    cache = natives.world({"n": 3})
    cache.natives.group_changed(None, natives.gang())
    server = Server(cache)
    writing = asyncio.create_task(sessions(cache, server, 60))
    for i in range(3):
        await asyncio.sleep(2)
        cache.pod_changed(None, natives.pod(f"p{i}"))
    await asyncio.sleep(20)
    for i in range(3):
        cache.pod_changed(natives.pod(f"p{i}"), natives.pod(f"p{i}", node="n"))
    await writing
    times = [at for at, _, _ in server.patches]
    assert all(later - earlier >= 5 for earlier, later in itertools.pairwise(times))
    first, last = server.patches[0][2], server.patches[-1][2]
    assert first[0] == ("PodGroupInitiallyScheduled", "False", "Unschedulable", "2 of 3 pods present")
    assert last == [SCHEDULED, ADMITTED]
    assert len(times) <= 4


@pytest.mark.looptime
async def test_a_failed_write_of_podgroup_conditions_is_retried():
    cache = natives.world({"n": 2})
    cache.natives.group_changed(None, natives.gang())
    for i in range(2):
        cache.pod_changed(None, natives.pod(f"p{i}"))
    server = Server(cache, refusals=2)
    await sessions(cache, server, 60)
    assert len(server.patches) == 3
    assert cache.groups.current(native_key("t", "g")).said[0].message == "2 of 3 pods present"  # type: ignore[union-attr]


@pytest.mark.looptime
async def test_nothing_is_written_on_a_group_of_another_scheduler():
    cache = natives.world({"n": 2})
    cache.natives.group_changed(None, natives.gang(minimum=1))
    for name, node in (("a", "n"), ("b", "")):
        cache.pod_changed(None, natives.pod(name, node=node, scheduler="default-scheduler"))
    server = Server(cache)
    await sessions(cache, server, 20)
    assert server.patches == []


def test_disruptiontarget_condition_stays_until_the_podgroup_runs_again():
    says = ("DisruptionTarget", "True", "PreemptionByScheduler", "m")
    assert made(conditions_patch(group(P.RUNNING, said=[SCHEDULED, ADMITTED]), NOW, "m")) == [says]
    assert made(conditions_patch(group(P.RUNNING, said=[SCHEDULED, ADMITTED, says]), NOW, "m")) == []
    assert made(conditions_patch(group(P.PENDING, FULL, said=[SCHEDULED, QUEUED, says]), NOW)) == []
    patch = conditions_patch(group(P.RUNNING, said=[SCHEDULED, ADMITTED, says]), NOW)
    assert patch is not None
    assert patch["status"]["conditions"] == [{"$patch": "delete", "type": "DisruptionTarget"}]


def whole(name: str = "g", **given: Any) -> records.NativePodGroup:
    """A gang of two that started, and of which all goes or nothing."""
    return natives.gang(name, 2, started=True, spec={"disruptionMode": {"all": {}}}, **given)


EVICTED = (
    "DisruptionTarget", "True", "PreemptionByScheduler", "volcano: preempting to accommodate a higher priority podgroup"
)  # fmt: skip


def evicted_alone(cache: Cache) -> list[str]:
    cache.natives.group_changed(None, whole())
    return ["g"]


def evicted_as_a_tree(cache: Cache) -> list[str]:
    part = {"parentCompositePodGroupName": "c"}
    cache.natives.composite_changed(None, natives.composite("c", 1, spec={"disruptionMode": {"all": {}}}))
    cache.natives.group_changed(None, natives.gang("g", 2, started=True, spec=part))
    return ["c", "g"]


@pytest.mark.parametrize("made_of", [evicted_alone, evicted_as_a_tree], ids=["a PodGroup", "a CompositePodGroup"])
@pytest.mark.parametrize("refusals", [0, 2], ids=["at once", "after the API server refused it"])
@pytest.mark.looptime
async def test_disruptiontarget_is_written_even_if_all_evicted_pods_are_deleted_before_the_write(
    made_of: Callable[[Cache], list[str]], refusals: int
):
    cache = natives.world({"n": 3})
    names = made_of(cache)
    members = [natives.pod(f"p{i}", node="n") for i in range(2)]
    for each in members:
        cache.pod_changed(None, each)
    server = Server(cache)
    async with writing_to(server) as writer:
        await taken(writer, cache, 2)
        assert {name for _, name, _ in server.patches} == set(names), "that it has started was written just now"
        server.refusals = len(server.patches) + refusals
        writer.evicted(cache.tasks[members[0].metadata.uid])
        for each in members:
            cache.pod_changed(each, None)
        await taken(writer, cache, 20)
    assert {name for _, name, said in server.patches if EVICTED in said} == set(names)


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "TerminationByKubelet"])
@pytest.mark.looptime
async def test_disruptiontarget_is_written_after_a_restart_while_preempted_pods_are_being_deleted(reason: str):
    cache = natives.world({"n": 3})
    cache.natives.group_changed(None, whole())
    for name in ("p0", "p1"):
        body = msgspec.to_builtins(natives.pod(name, node="n"))
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        body["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
        cache.pod_changed(None, msgspec.convert(body, records.Pod))
    server = Server(cache)
    await sessions(cache, server, 10)
    assert any(EVICTED in said for _, _, said in server.patches) == (reason == "PreemptionByScheduler")


@pytest.mark.looptime
async def test_a_recreated_podgroup_does_not_inherit_the_disruptiontarget_of_an_evicted_podgroup():
    cache = natives.world({"n": 3})
    before, member = whole(), natives.pod("p0", node="n")
    cache.natives.group_changed(None, before)
    cache.pod_changed(None, member)
    server = Server(cache)
    async with writing_to(server) as writer:
        await taken(writer, cache, 1)
        writer.evicted(cache.tasks[member.metadata.uid])
        cache.pod_changed(member, None)
        cache.natives.group_changed(before, None)
        cache.natives.group_changed(None, natives.gang("g", 2, uid="uid-again"))
        cache.pod_changed(None, natives.pod("p1"))
        server.patches.clear()
        await taken(writer, cache, 20)
    assert {each[0] for _, _, said in server.patches for each in said} == {"PodGroupInitiallyScheduled", "pyroclast.dev/Queued"}


JOB = ("batch.volcano.sh/v1alpha1", "Job", "uid-job")


def our_group(minimum: int, uid: str = JOB[2]) -> records.PodGroup:
    """The PodGroup of a Job."""
    owner = {"apiVersion": JOB[0], "kind": JOB[1], "name": "job", "uid": uid, "controller": True}
    metadata = {"name": "g", "namespace": objects.NAMESPACE, "uid": "uid-ours", "ownerReferences": [owner]}
    spec = {"minMember": minimum, "queue": "default"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, records.PodGroup)


def our_pod(name: str, node: str = "") -> records.Pod:
    """A pod that our PodGroup places, and that names the other one too."""
    return natives.pod(name, node=node, annotations={"scheduling.k8s.io/group-name": "g"})


class BothServer(Server):
    """Takes patches of our PodGroups as well."""

    def __init__(self, cache: Cache, ours: records.PodGroup) -> None:
        super().__init__(cache)
        self.ours = msgspec.to_builtins(ours)

    async def patch(self, kind: ResourceType, key: Key, patch: dict[str, Any], how: PatchKind, **more: Any) -> dict[str, Any]:
        if kind is not POD_GROUPS:
            return await super().patch(kind, key, patch, how, **more)
        before = msgspec.convert(self.ours, records.PodGroup)
        self.ours["status"] = {**self.ours.get("status", {}), **patch.get("status", {})}
        self.cache.group_changed(before, msgspec.convert(self.ours, records.PodGroup))
        return copy.deepcopy(self.ours)


@pytest.mark.looptime
async def test_the_kubernetes_podgroup_of_a_volcano_job_gets_the_conditions_of_its_gang():
    cache = natives.world({"n": 3})
    cache.natives.group_changed(None, natives.gang(owner=JOB))
    ours = our_group(3)
    cache.group_changed(None, ours)
    server = BothServer(cache, ours)
    writing = asyncio.create_task(sessions(cache, server, 60))
    for i in range(2):
        cache.pod_changed(None, our_pod(f"p{i}"))
    await asyncio.sleep(20)
    (first,) = {tuple(said) for _, _, said in server.patches}
    assert [each[:3] for each in first] == [
        ("PodGroupInitiallyScheduled", "False", "Unschedulable"),
        ("pyroclast.dev/Queued", "True", "PodsMissing"),
    ]
    cache.pod_changed(None, our_pod("p2"))
    await asyncio.sleep(5)
    for i in range(3):
        cache.pod_changed(our_pod(f"p{i}"), our_pod(f"p{i}", node="n"))
    await writing
    assert server.patches[-1][2] == [SCHEDULED, ADMITTED]
    assert len(server.patches) <= 3


@pytest.mark.looptime
async def test_a_kubernetes_podgroup_created_after_the_start_gets_the_scheduled_conditions():
    cache = natives.world({"n": 3})
    ours = our_group(1)
    cache.group_changed(None, ours)
    cache.pod_changed(None, our_pod("p", node="n"))
    server = BothServer(cache, ours)
    writing = asyncio.create_task(sessions(cache, server, 30))
    await asyncio.sleep(15)
    assert server.patches == []
    cache.natives.group_changed(None, natives.gang(owner=JOB, minimum=1))
    await writing
    assert [said for _, _, said in server.patches] == [[SCHEDULED, ADMITTED]]


@pytest.mark.looptime
async def test_the_kubernetes_podgroup_of_a_former_job_of_the_same_name_is_not_written():
    cache = natives.world({"n": 3})
    cache.natives.group_changed(None, natives.gang(owner=(*JOB[:2], "uid-of-before"), minimum=1))
    ours = our_group(1)
    cache.group_changed(None, ours)
    cache.pod_changed(None, our_pod("p", node="n"))
    server = BothServer(cache, ours)
    await sessions(cache, server, 15)
    assert server.patches == []


def test_a_deleted_kubernetes_podgroup_is_unlinked_from_the_volcano_podgroup():
    cache = natives.world({"n": 3})
    shown = natives.gang(owner=JOB)
    cache.natives.group_changed(None, shown)
    cache.group_changed(None, our_group(3))
    group = cache.natives.shown("t/g")
    assert group is not None
    assert (group.kind, group.metadata.uid) == (NATIVE_POD_GROUPS, shown.metadata.uid)
    cache.natives.group_changed(shown, None)
    assert cache.natives.shown("t/g") is None
