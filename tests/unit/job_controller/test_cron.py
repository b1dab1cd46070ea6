"""CronJobs on the embedded API server; the time is the test's own."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.types import CRDS, CRON_JOBS, EVENTS, JOBS, Key
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.times import parse_time
from pyroclast.runtime.in_process.jobs import JobCreator
from pyroclast.runtime.metrics import new_registry
from pyroclast.runtime.traces import Traces
from pyroclast_job_controller.app import COMPONENT
from pyroclast_job_controller.caches import Caches, Shared
from pyroclast_job_controller.cronjobs import CronController
from pyroclast_job_controller.metrics import ControllerMetrics
from tests.unit.ending import ended
from tests.unit.running import running_server

NS, NAME = "default", "c"
KEY = Key(NS, NAME)
MINUTE = 60.0
TASK = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}


class Time:
    """What the time is, said by the test. It begins at a whole minute shortly before the CronJobs are made."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Controller:
    """One CronJob controller with caches of its own."""

    def __init__(self, client: Client, recorder: EventRecorder, time: Time) -> None:
        clock = asyncio.get_running_loop().time
        shards = Shards()
        shards.take(0)
        self.caches = Caches(client, clock)
        queue: ShardedQueue[Key] = ShardedQueue("cron", shards=1, shard_of=shards.shard_of, now=time)
        self.queue = queue.open(0)
        shared = Shared(
            client, recorder, shards, time, clock, self.caches, ControllerMetrics(new_registry()), SchedulerLeases(client)
        )
        jobs = JobCreator(client, None, Traces("test"), webhooks=(), exempt=(), scheduler="volcano")
        self.cron = CronController(shared, queue, jobs)
        self.informers = [informer for informer in self.caches.informers if informer.kind in (JOBS, CRON_JOBS)]
        self._tasks = [asyncio.get_running_loop().create_task(informer.run()) for informer in self.informers]

    async def synced(self) -> None:
        for informer in self.informers:
            await informer.synced()

    async def sync(self, key: Key = KEY) -> None:
        """Look at the CronJob once; what the API server refuses is tried again by the queue, so here by the next call."""
        with contextlib.suppress(KubeError):
            await self.cron.reconcile(key)

    async def stop(self) -> None:
        await ended(*self._tasks)


class World:
    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self.client, self.recorder, self.time = client, recorder, Time()
        self.controllers: list[Controller] = []

    async def controller(self) -> Controller:
        controller = Controller(self.client, self.recorder, self.time)
        self.controllers.append(controller)
        await controller.synced()
        return controller

    async def create(self, name: str = NAME, **spec: Any) -> None:
        template = {"spec": {"tasks": [TASK]}}
        body = {
            "apiVersion": CRON_JOBS.api_version,
            "kind": "CronJob",
            "metadata": {"name": name, "namespace": NS},
            "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
        }
        created = parse_time((await self.client.create(CRON_JOBS, body))["metadata"]["creationTimestamp"])
        self.time.now = created // MINUTE * MINUTE + MINUTE - 1
        await self.seen()

    async def seen(self) -> None:
        """Wait until every controller shows what the server has."""

        async def versions() -> list[dict[str, str]]:
            kinds = [(await self.client.list(kind, NS))[0] for kind in (JOBS, CRON_JOBS)]
            return [{item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items} for items in kinds]

        async with asyncio.timeout(60):
            while True:
                want = await versions()
                have = [
                    [
                        {each.metadata.name: each.metadata.resource_version for each in informer.values()}
                        for kind in (JOBS, CRON_JOBS)
                        for informer in controller.informers
                        if informer.kind is kind
                    ]
                    for controller in self.controllers
                ]
                if all(each == want for each in have):
                    return
                await asyncio.sleep(0.01)

    async def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in (await self.client.list(JOBS, NS))[0]]

    async def finish(self, job: str, phase: str = "Completed") -> None:
        state = {"phase": phase, "lastTransitionTime": "2025-03-11T10:00:00Z"}
        with contextlib.suppress(NotFound):
            await self.client.patch(JOBS, Key(NS, job), {"status": {"state": state}}, PatchKind.MERGE, subresource="status")

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(CRON_JOBS, KEY)).get("status") or {}
        return found

    async def reasons(self) -> Counter[str]:
        """Of the Events so far; they are sent in the background."""
        await asyncio.sleep(0.3)
        events = (await self.client.list(EVENTS, NS))[0]
        return Counter(event["reason"] for event in events if event["involvedObject"]["name"] == NAME)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in custom_resource_definitions():
            if crd["metadata"]["name"] in {JOBS.qualified, CRON_JOBS.qualified}:
                await client.create(CRDS, crd)
        await server.settle()
        recorder = EventRecorder(client, COMPONENT)
        recording = asyncio.get_running_loop().create_task(recorder.run())
        world = World(client, recorder)
        yield world
        for controller in world.controllers:
            await controller.stop()
        await ended(recording)


async def test_due_job_is_created_once_and_recorded_in_the_status(world: World) -> None:
    controller = await world.controller()
    await world.create()
    await controller.sync()
    assert await world.jobs() == []
    world.time.now += 2
    for _ in range(3):
        await controller.sync()
    assert await world.jobs() == [f"c-{int(world.time.now) // 60}"]
    status = await world.status()
    assert parse_time(status["lastScheduleTime"]) == world.time.now - 1
    active = status["active"][0]
    assert (active["kind"], active["name"], active["namespace"]) == ("Job", f"c-{int(world.time.now) // 60}", NS)
    assert (await world.reasons())["SuccessfulCreate"] == 1


async def test_completed_jobs_leave_the_status_and_are_deleted_beyond_the_history_limit(world: World) -> None:
    controller = await world.controller()
    await world.create(successfulJobsHistoryLimit=1)
    for _ in range(3):
        world.time.now += MINUTE
        await controller.sync()
        await world.seen()
        for job in await world.jobs():
            await world.finish(job)
        await world.seen()
        await controller.sync()
        await world.seen()
    assert len(await world.jobs()) == 1
    assert await world.status() == {
        "lastScheduleTime": (await world.status())["lastScheduleTime"],
        "lastSuccessfulTime": "2025-03-11T10:00:00Z",
    }
    reasons = await world.reasons()
    assert (reasons["SawCompletedJob"], reasons["SuccessfulDelete"]) == (3, 2)


@pytest.mark.parametrize(("policy", "number"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
async def test_concurrency_policy_adds_skips_or_replaces_while_a_job_runs(world: World, policy: str, number: int) -> None:
    controller = await world.controller()
    await world.create(concurrencyPolicy=policy)
    for _ in range(3):
        world.time.now += MINUTE
        await controller.sync()
        await world.seen()
    assert len(await world.jobs()) == len((await world.status())["active"]) == number
    first_goes = policy == "Replace"
    assert (f"c-{int(world.time.now) // 60}" in await world.jobs()) == (policy != "Forbid")
    assert ((await world.reasons())["SuccessfulDelete"] == 2) == first_goes


async def test_run_time_skipped_by_policy_forbid_is_caught_up_after_the_job_ends(world: World) -> None:
    controller = await world.controller()
    await world.create(concurrencyPolicy="Forbid")
    world.time.now += MINUTE
    await controller.sync()
    world.time.now += MINUTE
    await controller.sync()
    (job,) = await world.jobs()
    await world.finish(job)
    await world.seen()
    await controller.sync()
    assert await world.jobs() == [job, f"c-{int(world.time.now) // 60}"]


async def test_suspended_cronjob_creates_no_jobs_but_still_updates_its_status(world: World) -> None:
    controller = await world.controller()
    await world.create()
    world.time.now += MINUTE
    await controller.sync()
    await world.client.patch(CRON_JOBS, KEY, {"spec": {"suspend": True}}, PatchKind.MERGE)
    await world.finish((await world.jobs())[0])
    await world.seen()
    world.time.now += 5 * MINUTE
    await controller.sync()
    assert len(await world.jobs()) == 1
    assert "active" not in await world.status()
    await world.client.patch(CRON_JOBS, KEY, {"spec": {"suspend": False}}, PatchKind.MERGE)
    await world.seen()
    await controller.sync()
    assert len(await world.jobs()) == 2


WRONG = {
    "no schedule": ({"schedule": "every day"}, "UnParseableCronJobSchedule"),
    "no zone": ({"timeZone": "Mars/Base"}, "InvalidTimeZone"),
    "no zone beside one in the schedule": ({"timeZone": "Mars/Base", "schedule": "TZ=UTC * * * * *"}, "InvalidTimeZone"),
    "never": ({"schedule": "0 0 31 2 *"}, "InvalidSchedule"),
}


@pytest.mark.parametrize(("spec", "reason"), WRONG.values(), ids=WRONG.keys())
async def test_invalid_cronjob_gets_an_event_and_does_not_stop_another_cronjob(world: World, spec: Any, reason: str) -> None:
    controller = await world.controller()
    await world.create("d")
    await world.create(**spec)
    world.time.now += MINUTE
    await controller.cron.reconcile(KEY)
    await controller.sync(Key(NS, "d"))
    assert await world.jobs() == [f"d-{int(world.time.now) // 60}"]
    assert (await world.reasons())[reason] >= 1


async def test_time_zone_in_the_schedule_works_and_is_reported_in_an_event(world: World) -> None:
    controller = await world.controller()
    await world.create(schedule="TZ=Asia/Tokyo * * * * *")
    world.time.now += MINUTE
    await controller.sync()
    assert len(await world.jobs()) == 1
    assert (await world.reasons())["UnsupportedSchedule"] >= 1


async def test_foreign_job_with_the_name_of_a_run_is_reported_and_blocks_only_that_run(world: World) -> None:
    controller = await world.controller()
    await world.create()
    world.time.now += 2
    meta = {"name": f"c-{int(world.time.now) // 60}", "namespace": NS}
    await world.client.create(JOBS, {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": meta, "spec": {"tasks": [TASK]}})
    await controller.sync()
    assert (await world.reasons())["ForeignJob"] == 1
    assert await world.status() == {}
    world.time.now += MINUTE
    await controller.sync()
    assert len(await world.jobs()) == 2


async def test_changed_schedule_requeues_the_cronjob_with_a_delay_instead_of_at_once(world: World) -> None:
    controller = await world.controller()
    await world.create(schedule="0 0 1 1 *")
    await controller.sync()
    world.time.now += 90
    while controller.queue.delayed or len(controller.queue):
        if not len(controller.queue):
            break
        controller.queue.done(await controller.queue.get())
    await world.client.patch(CRON_JOBS, KEY, {"spec": {"schedule": "* * * * *"}}, PatchKind.MERGE)
    await world.seen()
    assert len(controller.queue) == 0
    assert controller.queue.delayed == 1


async def test_status_refused_with_a_conflict_is_written_later_without_a_second_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await world.controller()
    await world.create(concurrencyPolicy="Forbid")
    world.time.now += MINUTE
    patch = world.client.patch

    async def refused(*arguments: Any, **options: Any) -> Any:
        if options.get("subresource") == "status":
            raise Conflict(409, "Conflict", "the object has been modified")
        return await patch(*arguments, **options)

    with monkeypatch.context() as during:
        during.setattr(world.client, "patch", refused)
        await controller.sync()
        await controller.sync()
    assert len(await world.jobs()) == 1
    assert await world.status() == {}
    await (await world.controller()).sync()
    assert [each["name"] for each in (await world.status())["active"]] == await world.jobs()


@pytest.mark.parametrize("seed", range(4))
async def test_no_run_time_gets_two_jobs_despite_restarts_and_two_controllers(world: World, seed: int) -> None:
    """Two controllers that know nothing of each other, each cancelled anywhere in its work, with informers that lag behind."""
    chance = random.Random(seed)
    made: Counter[str] = Counter()
    create = world.client.create

    async def counted(kind: Any, body: Any, **options: Any) -> Any:
        answer = await create(kind, body, **options)
        if kind is JOBS:
            made[body["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"]] += 1
        return answer

    world.client.create = counted  # type: ignore[method-assign]
    policy = chance.choice(["Allow", "Forbid", "Replace"])
    controllers = [await world.controller(), await world.controller()]
    await world.create(concurrencyPolicy=policy, successfulJobsHistoryLimit=chance.choice([0, 1]))
    begin = world.time.now
    for _ in range(60):
        world.time.now += chance.choice([1, 20, 40, 70])
        syncs = [asyncio.get_running_loop().create_task(each.sync()) for each in controllers]
        for task in syncs:
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.01)
                task.cancel()
        await asyncio.wait(syncs)
        for job in await world.jobs():
            if chance.random() < 0.5:
                await world.finish(job, chance.choice(["Completed", "Failed"]))
        if chance.random() < 0.1:
            place = chance.randrange(2)
            await controllers[place].stop()
            world.controllers.remove(controllers[place])
            controllers[place] = await world.controller()
    world.client.create = create  # type: ignore[method-assign]
    assert set(made.values()) == {1}
    if policy != "Forbid":
        assert len(made) >= (world.time.now - begin) / 60 * 0.4  # jumps of more than a minute leave times out
