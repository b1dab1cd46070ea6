"""Flows under unlucky circumstances: deleted at the wrong moment, mended after a long time."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.client import PatchKind
from pyroclast.runtime.traces import ANNOTATION as TRACE
from pyroclast.runtime.traces import context_within, flow_identity
from pyroclast_jobflow_controller.settings import JobFlowSettings

from .world import NS, SPEC, World

OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Hasty(World):
    """A user deletes the flow just before it is held."""

    async def patch(self, kind: ResourceType, key: Key, body: Any, how: PatchKind, **more: Any) -> dict[str, Any]:
        if _holds(body) and (kind, key) in self.objects:
            self.remove(kind, key)
        return await super().patch(kind, key, body, how, **more)


def _holds(body: Any) -> bool:
    return isinstance(body, Mapping) and bool(body.get("metadata", {}).get("finalizers"))


@pytest.mark.looptime
async def test_no_job_is_created_for_a_jobflow_deleted_before_it_gets_its_finalizer() -> None:
    world = Hasty(random.Random(1))
    world.put_flow({"name": "a"})
    async with world.controller():
        await asyncio.sleep(10)
    assert (world.created, [kind.kind for kind, _ in world.objects]) == ([], ["JobTemplate"])
    assert world.events.said == []


@pytest.mark.looptime
@pytest.mark.parametrize(("given", "trace"), [({}, None), ({TRACE: OTHER}, "0af7651916cd43dd8448eb211c80319c")])
async def test_jobs_carry_the_trace_context_of_their_jobflow_if_tracing_is_enabled(
    given: dict[str, str], trace: str | None
) -> None:
    world = World(random.Random(1), collector="http://127.0.0.1:9")
    world.put_flow({"name": "a"}, metadata={"annotations": given})
    async with world.controller():
        await asyncio.sleep(10)
    uid = world.flow()["metadata"]["uid"]
    carried = world.objects[JOBS, Key(NS, "f-a")]["metadata"]["annotations"][TRACE]
    assert carried == context_within(flow_identity(uid), given.get(TRACE, ""))
    assert trace is None or carried.split("-")[1] == trace
    world.traces.close()


MENDED: dict[str, tuple[Any, Any, ResourceType, str, dict[str, Any]]] = {
    "a patch": (SPEC, 1, JOB_FLOWS, "f", {"flows": [{"name": "a", "patch": {"spec": {"maxRetry": 1}}}]}),
    "a template": ({"tasks": [{"name": "x"}, {"name": "y"}]}, [{"replicas": 1}], JOB_TEMPLATES, "a", {"tasks": [{"name": "x"}]}),
}
"""The template, the tasks that the flow patches into it in vain, and what is mended how."""


@pytest.mark.looptime
@pytest.mark.parametrize(("template", "tasks", "kind", "name", "mended"), MENDED.values(), ids=MENDED)
async def test_a_job_is_created_at_once_after_its_invalid_patch_or_template_is_corrected(
    template: Any, tasks: Any, kind: ResourceType, name: str, mended: dict[str, Any]
) -> None:
    world = World(random.Random(1))
    world.put_flow({"name": "a", "patch": {"spec": {"tasks": tasks}}}, template=template)
    async with world.controller():
        await asyncio.sleep(500)
        assert world.flow()["status"]["conditions"]["f-a"]["reason"] == "PatchInvalid"
        world.change(kind, name, {"spec": mended})
        await asyncio.sleep(1)
        assert world.created == ["f-a"]


@pytest.mark.looptime
@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_failed_job_is_recreated_only_after_its_finalizer_is_removed(by_hand: bool) -> None:
    world = World(random.Random(1))
    world.put_flow({"name": "a", "retry": {"limit": 1, "backoff": "5s"}})
    async with world.controller():
        await asyncio.sleep(1)
        world.change(JOBS, "f-a", {"metadata": {"finalizers": ["foregroundDeletion"]}})
        world.enter("f-a", "Failed")
        await asyncio.sleep(1)
        if by_hand:
            world.remove(JOBS, Key(NS, "f-a"))
        await asyncio.sleep(20)
        assert world.created == ["f-a"]
        world.change(JOBS, "f-a", {"metadata": {"finalizers": []}})
        await asyncio.sleep(5)
        assert world.created == ["f-a", "f-a"]


@pytest.mark.looptime
async def test_a_deleted_jobflow_terminates_until_the_finalizers_of_its_jobs_are_removed() -> None:
    world = World(random.Random(1))
    world.put_flow({"name": "a"}, {"name": "b"})
    async with world.controller():
        await asyncio.sleep(1)
        world.change(JOBS, "f-a", {"metadata": {"finalizers": ["somebody/waits"]}})
        world.enter("f-a", "Completed")
        await asyncio.sleep(1)
        world.remove(JOB_FLOWS, Key(NS, "f"))
        await asyncio.sleep(5)
        assert world.flow()["status"]["state"]["phase"] == "Terminating"
        world.change(JOBS, "f-a", {"metadata": {"finalizers": []}})
        await asyncio.sleep(5)
    assert [kind.kind for kind, _ in world.objects] == ["JobTemplate", "JobTemplate"]


class Guarded(World):
    """One kind may not be changed by the controllers; counts how often it is tried."""

    def __init__(self, kind: ResourceType) -> None:
        super().__init__(random.Random(1))
        self.kind, self.is_shut, self.tries = kind, True, 0

    async def patch(self, kind: ResourceType, key: Key, body: Any, how: PatchKind, **more: Any) -> dict[str, Any]:
        if kind is self.kind and self.is_shut:
            self.tries += 1
            raise Forbidden(403, "Forbidden", f"may not patch {kind.plural}")
        return await super().patch(kind, key, body, how, **more)


@pytest.mark.looptime
@pytest.mark.parametrize("kind", [JOB_FLOWS, JOB_TEMPLATES], ids=lambda kind: kind.kind)
async def test_a_forbidden_update_gets_one_event_is_retried_rarely_and_succeeds_once_allowed(kind: ResourceType) -> None:
    world = Guarded(kind)
    world.put_flow({"name": "a"})
    async with world.controller():
        await asyncio.sleep(600)
        assert [text for type_, _, text in world.events.said if type_ == "Warning"] == [
            f"Failed to update {kind.kind.lower()}, err: may not patch {kind.plural}"
        ]
        assert 5 < world.tries < 15
        world.is_shut = False
        await asyncio.sleep(300)
    assert world.created == ["f-a"]
    assert world.flow()["status"]["state"]["phase"]
    assert world.objects[JOB_TEMPLATES, Key(NS, "a")]["status"]["jobDependsOnList"] == ["f-a"]


class InProcess(World):
    """The rules of Jobs are applied by the controllers; nobody calls a webhook."""

    queues: tuple[dict[str, Any], ...] = ()

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.settings = JobFlowSettings(in_process_webhooks=("/jobs/mutate", "/jobs/validate", "/commands/validate"))

    async def request(self, *_: object, **__: object) -> bytes:
        return b'{"major": "1", "minor": "36"}'

    async def list(self, kind: ResourceType, *args: Any, field_selector: str = "", **more: Any) -> tuple[list[Any], str]:
        if kind is not QUEUES:
            return await super().list(kind, *args, **more)
        return [queue for queue in self.queues if field_selector == f"metadata.name={queue['metadata']['name']}"], "1"


@pytest.mark.looptime
async def test_a_job_denied_by_in_process_webhooks_is_reported_on_its_jobflow_and_created_once_allowed() -> None:
    world = InProcess()
    world.put_flow({"name": "a"})
    async with world.controller():
        await asyncio.sleep(10)
        said = [condition["message"] for condition in world.flow()["status"]["conditions"].values()]
        assert world.job("f-a") is None
        assert (world.flow()["status"]["state"]["phase"], [reason for _, reason, _ in world.events.said]) == (
            "Pending",
            ["JobRefused"],
        )
        world.queues = ({"metadata": {"name": "default"}, "spec": {}, "status": {"state": "Open"}},)
        await asyncio.sleep(60)
    assert said[0].startswith('admission webhook "validatejob.volcano.sh" denied the request: unable to find job queue')
    assert world.objects[JOBS, Key(NS, "f-a")]["spec"]["schedulerName"] == "volcano"
