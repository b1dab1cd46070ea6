"""Before something is denied for the state of others, the API server is asked: the caches may lag behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.rules.lookups import FlowView, QueueView
from pyroclast_admission import engine as engines
from pyroclast_admission.engine import Overload, ReviewMetrics
from pyroclast_admission.handlers import WEBHOOKS
from pyroclast_admission.known import Known
from pyroclast_admission.lookup import Doubt, View
from tests.bench.admission_server import FixedFlows, everybody, known
from tests.unit.admission.clients import review, status_of
from tests.unit.rules.builders import job

CACHED = (QueueView("default", "root", "Open"), QueueView("shut", "root", "Closed"), QueueView("above", "root", "Open"))
CHILDREN = [QueueView(f"below-{number}", "above", "Open") for number in range(3)]


@contextmanager
def an_engine(cached: Known, read: Mapping[str, View]) -> Iterator[tuple[engines.Engine, list[str]]]:
    """An engine whose caches have `cached` while the API server has `read`, and the names of what it reads there."""
    asked: list[str] = []

    async def fetch(doubt: Doubt) -> View | None:
        _, key = doubt
        asked.append(key.name)
        if key.name == "away":
            raise ConnectionFailed("connection refused")
        return read.get(key.name)

    metrics = ReviewMetrics(CollectorRegistry())
    engine = engines.Engine(WEBHOOKS, lambda: cached, fetch, authorize=everybody, overload=Overload(), metrics=metrics)
    try:
        yield engine, asked
    finally:
        engine.close()


async def ask_engine(engine: engines.Engine, path: str, **asked: Any) -> dict[str, Any]:
    reply = await engine.reply(path, orjson.dumps(review(path, **asked)))
    answered: dict[str, Any] = orjson.loads(reply.body)
    return answered


@pytest.mark.parametrize(
    ("queue", "read", "allowed", "asked"),
    [
        ("late", [QueueView("late", "root", "Open")], True, ["late"]),
        ("late", [QueueView("late", "root", "Closed")], False, ["late"]),
        ("nowhere", [], False, ["nowhere"]),
        ("default", [], True, []),
        ("shut", [QueueView("shut", "root", "Open")], True, ["shut"]),
        ("shut", [QueueView("shut", "root", "Closed")], False, ["shut"]),
        ("shut", [], False, ["shut"]),
        ("above", [], True, ["below-0", "below-1", "below-2"]),
        ("above", CHILDREN[1:], False, ["below-0", "below-1", "below-2"]),
        ("above", [replace(child, parent="root") for child in CHILDREN], True, ["below-0", "below-1", "below-2"]),
    ],
)
async def test_a_job_is_denied_only_when_the_api_server_confirms_the_state_of_its_queue(
    queue: str, read: Sequence[QueueView], allowed: bool, asked: list[str]
) -> None:
    with an_engine(known(*CACHED, *CHILDREN), {view.name: view for view in read}) as (engine, seen):
        answered = await ask_engine(engine, "/jobs/validate", object=job(queue=queue))
    assert (answered["response"]["allowed"], seen) == (allowed, asked)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/jobs/validate", "spec"),
        ("/jobtemplates/validate", "spec"),
        ("/cronjobs/validate", "spec.jobTemplate.spec"),
    ],
)
async def test_a_missing_priority_class_is_a_warning_for_jobs_and_for_templates_of_jobs(path: str, place: str) -> None:
    made = job(priorityClassName="gone")
    if place != "spec":
        made = {"metadata": {"name": "c"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": made["spec"]}}}
    cached = msgspec.structs.replace(known(*CACHED), priority_classes=("urgent",))
    with an_engine(cached, {}) as (engine, _):
        response = (await ask_engine(engine, path, object=made))["response"]
    assert response["allowed"], response
    assert [line for line in response["warnings"] if "PriorityClass" in line] == [
        f'{place}.priorityClassName: there is no PriorityClass "gone"; no pod of it is made until there is one'
    ]


async def test_a_failed_queue_lookup_denies_the_job_with_503_and_retry_after() -> None:
    with an_engine(known(*CACHED), {}) as (engine, _):
        away = status_of(await ask_engine(engine, "/jobs/validate", object=job(queue="away")))
    assert (away["code"], away["reason"], away["details"]) == (503, "ServiceUnavailable", {"retryAfterSeconds": 1})
    assert away["message"] == "queue away cannot be looked up now, try again: connection refused"


NAMED = {"scheduling.volcano.sh/queue-name": "late"}


def named(**places: Any) -> dict[str, Any]:
    """A Job of Kubernetes itself; `own` and `template`: their labels or annotations."""
    return {"metadata": places.get("own", {}), "spec": {"template": {"metadata": places.get("template", {})}}}


@pytest.mark.parametrize("path", ["/batchjobs/validate", "/nativegroups/validate"])
@pytest.mark.parametrize(
    ("places", "read", "fields"),
    [
        ({}, [], []),
        ({"own": {"labels": {"scheduling.volcano.sh/queue-name": "open"}}}, [], []),
        ({"own": {"labels": NAMED}}, [QueueView("late", "root", "Open")], []),
        ({"own": {"labels": NAMED}}, [], ["metadata.labels"]),
        ({"own": {"annotations": NAMED}}, [], ["metadata.annotations"]),
        ({"template": {"labels": NAMED}}, [], ["spec.template.metadata.labels"]),
        ({"template": {"annotations": NAMED}}, [], ["spec.template.metadata.annotations"]),
    ],
    ids=["none", "one that is there", "one that has just come", "label", "annotation", "label of pods", "annotation of pods"],
)
async def test_a_kubernetes_job_or_podgroup_that_names_a_missing_queue_gets_a_warning(
    path: str, places: dict[str, Any], read: list[QueueView], fields: list[str]
) -> None:
    with an_engine(known(QueueView("open", "root", "Open")), {view.name: view for view in read}) as (engine, _):
        response = (await ask_engine(engine, path, object=named(**places)))["response"]
    key = "[scheduling.volcano.sh/queue-name]"
    warnings = [f'{field}{key}: there is no queue "late"; the pods wait until there is one' for field in fields]
    assert (response["allowed"], response.get("warnings", [])) == (True, warnings)


async def test_a_review_that_only_warns_is_allowed_despite_failed_lookups_and_overload() -> None:
    away = named(own={"labels": {"scheduling.volcano.sh/queue-name": "away"}})
    with an_engine(known(*CACHED), {}) as (engine, seen):
        response = (await ask_engine(engine, "/batchjobs/validate", object=away))["response"]
        assert (response["allowed"], response.get("warnings"), seen) == (True, None, ["away"])
        engine._overload.sheds = True
        response = (await ask_engine(engine, "/batchjobs/validate", object=away))["response"]
    assert response["allowed"] is True


@pytest.mark.parametrize(("read", "allowed"), [(None, True), ("Succeed", True), ("Running", False)])
async def test_a_jobtemplate_can_be_deleted_only_when_no_active_jobflow_uses_it(read: str | None, allowed: bool) -> None:
    cached = known(flows=FixedFlows(step=[FlowView("over", "Failed"), FlowView("runs", "Running")]))
    with an_engine(cached, {} if read is None else {"runs": FlowView("runs", read)}) as (engine, asked):
        old = {"metadata": {"name": "step", "namespace": "team-a"}}
        answered = await ask_engine(engine, "/jobtemplates/validate", operation="DELETE", name="step", oldObject=old)
    assert (answered["response"]["allowed"], asked) == (allowed, ["runs"])


@pytest.mark.parametrize("left", [0, 1, 3])
async def test_a_queue_can_be_deleted_only_when_the_api_server_has_no_child_queue(left: int) -> None:
    with an_engine(known(*CACHED, *CHILDREN), {child.name: child for child in CHILDREN[:left]}) as (engine, _):
        answered = await ask_engine(engine, "/queues/validate", name="above", operation="DELETE")
    assert answered["response"]["allowed"] is (left == 0)
    if left:
        names = ", ".join(child.name for child in CHILDREN[:left])
        assert status_of(answered)["message"] == f"queue above can not be deleted because it has {left} child queues: {names}"


async def test_deleting_a_queue_with_very_many_cached_children_is_denied_without_a_lookup() -> None:
    many = [QueueView(f"below-{number}", "above", "Open") for number in range(engines.MAX_READ + 1)]
    with an_engine(known(*CACHED, *many), {}) as (engine, asked):
        answered = await ask_engine(engine, "/queues/validate", name="above", operation="DELETE")
    assert (answered["response"]["allowed"], asked) == (False, [])
