"""What makes a cycle fail is left out by the service, for the right reason, and nobody else is."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.types import HYPER_NODES
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.shell.loop import Loop
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.session_inputs import ReservedNodes, SessionGaps, SessionInputs
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take_statuses

PICKY = "actions: allocate\ntiers: [{plugins: [{name: picky}, {name: gang}, {name: predicates}]}]"


class Recorder:
    def __init__(self):
        self.said = []

    def event(self, reference, _type, reason, message, **_labels):
        self.said.append((reference.kind, reference.name, reason, message))


class Service:
    """A loop over a cache; what it decides is assumed at once, and what it would write is kept."""

    def __init__(self, picky, text=PICKY):
        self.cache = Cache()
        self.cache.queue_changed(None, objects.queue(["q"]))
        for name in ("n0", "n1"):
            self.cache.node_changed(None, objects.node([name, 8, "8Gi"]))
        self.plugins = dict(registry.plugins()) | {"picky": lambda _arguments: SimpleNamespace(open=picky)}
        self.text = text
        self.configuration = parse(text, actions=registry.actions(), plugins=self.plugins)
        self.recorder, self.outcomes, self.warned = Recorder(), [], []
        self.metrics = SchedulerMetrics(CollectorRegistry())
        self.elsewhere = {}
        series = SimpleNamespace(gone=lambda _keys: None, seen=lambda _group: None, shares=lambda _shares: None)
        reserved = ReservedNodes(self.cache, self.metrics, now=lambda: objects.NOW)
        self.inputs = SessionInputs(
            reserved,
            SimpleNamespace(usage=dict),
            period=1.0,
            scheduler="ours",
            elsewhere=lambda: self.elsewhere,
            now=lambda: objects.NOW,
        )
        self.loop = Loop(
            self.cache,
            lambda: self.configuration,
            self.inputs,
            actions=registry.actions(),
            plugins=self.plugins,
            binder=SimpleNamespace(take=self._take, series=series),
            evictor=SimpleNamespace(take=lambda _commit: None),
            writer=SimpleNamespace(take=self._write, sweep=lambda: None),
            keeper=SimpleNamespace(take=lambda _jobs, _now: []),
            metrics=self.metrics,
            recorder=self.recorder,
            reserved=reserved,
            gaps=SessionGaps(),
            explained=lambda _outcome: None,
            warned=self.warned.extend,
            now=lambda: objects.NOW,
        )

    def jobs(self, *names):
        for name in names:
            self.job(name)

    async def cycles(self, count):
        """So many cycles, each of which ended well, or found whom to leave out."""
        assert [await self.cycle() for _ in range(count)] == [True] * count

    def job(self, name, size=1):
        self.cache.group_changed(None, objects.pod_group([name, "q", size, {"phase": "Inqueue"}]))
        for i in range(size):
            self.cache.pod_changed(None, objects.pod([f"{name}-{i}", name, "-", 1, "1Gi"]))

    @property
    def placed(self):
        return {task.name for task in self.cache.tasks.values() if task.node}

    @property
    def left_out(self):
        return sorted(self.cache.problems)

    async def cycle(self):
        """Whether a cycle ended well, or found whom to leave out."""
        taking = asyncio.create_task(self.loop._commit())
        with ThreadPoolExecutor(1) as thread:
            try:
                await self.loop._cycle(thread)
            except ArithmeticError:
                return False
            finally:
                taking.cancel()
        return True

    async def _take(self, commit: Commit, _turn, **_):
        for binds in commit.binds:
            assert assume_all(self.cache, binds.placed) is None

    async def _write(self, outcome):
        self.outcomes.append(outcome)
        take_statuses(self.cache, outcome)

    def expect_event(self, *about):
        ((kind, name, reason, message),) = self.recorder.said
        assert (kind, name, reason) == (*about[:2], "LeftOut")
        assert about[2] in message

    def shown(self, kind):
        return self.metrics.registry.get_sample_value("pyroclast_objects_left_out", {"kind": kind})


def order_that_fails_for(*names):
    def order(job):
        if job.facts.name in names:
            raise ArithmeticError(job.facts.name)
        return 0

    return lambda _session: Extensions(job_order=order)


async def test_a_session_failure_that_does_not_recur_leaves_no_object_out():
    failures = [True]

    def picky(_session):
        if failures:
            raise ArithmeticError(failures.pop())
        return Extensions()

    service = Service(picky)
    service.jobs("j0", "j1", "j2", "j3")
    assert not await service.cycle()
    assert service.left_out == []
    assert await service.cycle()
    assert service.placed == {"j0-0", "j1-0", "j2-0", "j3-0"}
    assert service.outcomes[-1].warnings == []


async def test_each_of_several_failing_jobs_is_left_out_and_good_jobs_are_placed():
    service = Service(order_that_fails_for("b1", "b2"))
    service.jobs("a", "b1", "b2", "c")
    await service.cycles(3)
    assert service.left_out == ["podgroup t/b1", "podgroup t/b2"]
    assert service.placed == {"a-0", "c-0"}
    assert service.shown("PodGroup") == 2
    messages = {
        note.job: note.message for note in service.outcomes[-1].notes if "scheduling failed because of it" in note.message
    }
    assert messages.keys() == {"t/b1", "t/b2"}
    assert not service.recorder.said  # why they wait is said in one event, which is that note


async def test_a_node_that_fails_with_every_job_is_left_out_instead_of_the_jobs():
    def picky(session):
        def scores(_job, _task, _plan, candidates):
            if "bad" in {session.names[row] for row in candidates.nonzero()[0]}:
                raise ArithmeticError("bad")

        return Extensions(batch_node_order=scores)

    service = Service(picky)
    service.cache.node_changed(None, objects.node(["bad", 8, "8Gi"]))
    service.jobs("j0", "j1", "j2", "j3")
    await service.cycles(2)
    assert service.left_out == ["node bad"]
    assert len(service.placed) == 4
    service.expect_event("Node", "bad", "ArithmeticError: bad")
    assert service.shown("Node") == 1


async def test_an_idle_running_job_that_makes_sessions_fail_is_left_out_with_an_event():
    failing = {"t/old"}

    def picky(session):
        residents = {task.job for tasks in session.snapshot.residents for task in tasks}
        if failing & (residents | session.snapshot.all_jobs.keys()):
            raise ArithmeticError("old")
        return Extensions()

    service = Service(picky)
    service.cache.group_changed(None, objects.pod_group(["old", "q", 1, {"phase": "Running"}]))
    service.cache.pod_changed(None, objects.pod(["old-0", "old", "n0", 1, "1Gi"]))
    service.job("new")
    assert await service.cycle()
    assert service.left_out == ["podgroup t/old"]
    failing.clear()
    assert await service.cycle()
    service.expect_event("PodGroup", "old", "ArithmeticError: old")


async def test_a_running_podgroup_of_a_missing_queue_gets_one_leftout_event_and_is_counted():
    service = Service(lambda _session: Extensions())
    service.cache.group_changed(None, objects.pod_group(["lost", "nowhere", 1, {"phase": "Running"}]))
    service.cache.group_changed(None, objects.pod_group(["over", "nowhere", 1, {"phase": "Completed"}]))
    for _ in range(2):
        assert await service.cycle()
    service.expect_event("PodGroup", "lost", "queue nowhere does not exist")
    assert service.shown("PodGroup") == 1
    service.cache.queue_changed(None, objects.queue(["nowhere"]))
    assert await service.cycle()
    assert service.shown("PodGroup") == 0


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_hypernode_that_makes_a_plugin_fail_is_left_out_until_it_changes_or_is_deleted(is_deleted):
    def picky(session):
        if bad in session.objects(type(bad)).values():
            raise ArithmeticError("bad")
        return Extensions()

    bad = objects.hyper_node("bad", 1, ["n0"], {})
    service = Service(picky)
    service.cache.objects.kinds[type(bad)] = HYPER_NODES
    for name in ("a", "bad", "c"):
        service.cache.object_changed(None, objects.hyper_node(name, 1, ["n0"], {}))
    service.job("j")
    await service.cycles(2)
    assert service.left_out == ["hypernode bad"]
    assert service.placed == {"j-0"}
    assert service.shown("HyperNode") == 1
    service.cache.object_changed(bad, None if is_deleted else objects.hyper_node("bad", 2, ["n0"], {}))
    assert await service.cycle()
    assert service.left_out == []
    assert service.shown("HyperNode") == 0


async def test_a_plugin_that_cannot_be_opened_at_all_is_skipped_and_tried_again(monkeypatch):
    opened = []

    def picky(_session):
        opened.append(True)
        raise ArithmeticError("broken")

    service = Service(picky)
    periods = [0]
    monkeypatch.setattr(service.inputs, "periods", lambda: periods[0])
    service.job("j")
    await service.cycles(2)
    assert service.left_out == []
    assert service.placed == {"j-0"}
    (warning,) = service.warned
    assert warning.startswith("plugin picky: it is skipped, as ")
    assert "ArithmeticError: broken" in warning
    opened.clear()
    service.job("k")
    assert await service.cycle()
    assert not opened
    periods[0] = 1000
    assert await service.cycle()
    assert opened
    opened.clear()
    service.configuration = parse(PICKY, actions=registry.actions(), plugins=service.plugins)  # somebody has changed it
    assert await service.cycle()
    assert opened


async def test_all_jobs_are_examined_again_when_a_skipped_plugin_opens_again(monkeypatch):
    opens = [False]

    def picky(_session):
        if not opens[0]:
            raise ArithmeticError("broken")
        return Extensions()

    service = Service(picky)
    periods = [0]
    monkeypatch.setattr(service.inputs, "periods", lambda: periods[0])
    for name, size in (("a", 20), ("b", 30), ("c", 40)):
        service.job(name, size)
    await service.cycles(4)
    assert service.outcomes[-1].seen == set()
    opens[0] = True
    periods[0] = 1000
    assert await service.cycle()
    assert service.outcomes[-1].seen == {"t/a", "t/b", "t/c"}


async def test_the_search_for_a_failing_object_uses_the_inputs_of_the_failed_session():
    seen = []

    def picky(session):
        ports = session.ports
        seen.append((ports.scheduler, ports.reservations, ports.elsewhere, ports.period, dict(ports.memory)))
        ports.memory["picky"] = {"done": True}
        if len(seen) <= 2:
            raise ArithmeticError("twice")
        return Extensions()

    service = Service(picky)
    service.elsewhere = {"q": {"cpu": 1}}
    service.inputs.for_onlookers().memory["picky"] = {"first": 1}
    service.job("j")
    assert not await service.cycle()
    assert len(seen) > 2
    assert all(each == seen[0] for each in seen)
    assert seen[0][0] == "ours"
    assert seen[0][4] == {"picky": {"first": 1}}
    assert isinstance(seen[0][2], Mapping)
    assert service.inputs.for_onlookers().memory == {"picky": {"done": True}}  # what the session did stays done


@pytest.mark.parametrize("asked", range(1, 8))  # longer than that, and the plugin looks broken
async def test_a_failure_that_ends_during_the_search_leaves_no_object_out(asked):
    left = [asked]

    def picky(_session):
        left[0] -= 1
        if left[0] >= 0:
            raise ArithmeticError("not yet")
        return Extensions()

    service = Service(picky)
    service.jobs("j0", "j1", "j2", "j3")
    while not await service.cycle():
        assert service.left_out == []
    assert service.left_out == []
    assert not service.warned
