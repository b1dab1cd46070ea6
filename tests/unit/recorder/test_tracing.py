"""One trace per Job: the spans that are made at its end, each once though recorders come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pyroclast.api.enums import FlowPhase, JobPhase, PodGroupPhase
from pyroclast.api.records.flows import FlowState, FlowStatus, JobFlow
from pyroclast.api.records.groups import PodGroup, PodGroupCondition, PodGroupStatus
from pyroclast.api.records.jobs import Job, JobState, JobStatus
from pyroclast.api.records.meta import Meta, OwnerReference
from pyroclast.runtime.traces import ANNOTATION, PastSpan, Traces, context_within, flow_identity
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import pods
from pyroclast_recorder.following.sinks import Seen
from pyroclast_recorder.following.spans import JobHistory, spans_of
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.reading.queries import tries

from .conftest import ON_SQLITE, NewDatabase

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROW = {"uid": "u", "namespace": "team", "name": "train", "queue": "red", "phase": "Completed", "retries": 1}


class Collector(Traces):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.spans: list[PastSpan] = []
        self.is_away = False

    def send(self, spans: Sequence[PastSpan]) -> bool:
        self.spans += [] if self.is_away else spans
        return not self.is_away


def times(spans: Sequence[PastSpan]) -> list[tuple[str, float, float]]:
    return [(span.name, span.begin, span.end) for span in spans]


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (
            {"created": 10, "let_in": 20, "placed": 30, "started": 40, "ended": 90},
            [("queue.wait", 10, 20), ("gang.wait", 20, 30), ("pods.start", 30, 40), ("job.run", 40, 90), ("job.end", 90, 90)],
        ),
        ({"created": 10, "started": 40, "ended": 90}, [("queue.wait", 10, 40), ("job.run", 40, 90), ("job.end", 90, 90)]),
        ({"created": 10, "ended": 15}, [("queue.wait", 10, 15), ("job.end", 15, 15)]),
        (
            {"created": 10, "let_in": 21, "placed": 20, "started": 95, "ended": 90},
            [("queue.wait", 10, 21), ("gang.wait", 21, 21), ("pods.start", 21, 90), ("job.run", 90, 90), ("job.end", 90, 90)],
        ),
    ],
)
def test_job_spans_are_contiguous_even_when_steps_are_missing_or_out_of_order(seen: dict[str, int], told: list[Any]) -> None:
    found = spans_of({**ROW, **seen}, PARENT, JobHistory())
    assert times(found) == told
    assert {span.parent for span in found} == {PARENT}
    assert len({span.identity for span in found}) == len(found)
    assert found[-1].attributes["state"] == "Completed"


def pod(number: int, at: int, *, version: int = 0, **more: Any) -> dict[str, Any]:
    row = {"uid": f"{version}-{number}-{at}", "name": f"train-{number}", "node": "node-1", "task": "worker", "task_index": number}
    return {**row, "job_version": version, "created": at, "bound": at, "finished": None, "evicted_for": None, **more}


WHOLE = {"created": 10, "let_in": 12, "placed": 30, "started": 40, "ended": 90}
STEPS = [
    {"name": "Prepared", "at": 11, "message": None},
    {"name": "QueueFull", "at": 12, "message": "QueueFull: research may use 8 cpu"},
    {"name": "NotEnoughResources", "at": 20, "message": "2/2 tasks in gang unschedulable NodesFull: 7 nodes are full"},
    {"name": "Scheduled", "at": 30, "message": "session s-1 tried 7 nodes"},
    {"name": "Scheduled", "at": 55, "message": "session s-2 tried 8 nodes"},
    {"name": "Scheduled", "at": 60, "message": "said by somebody else"},
]
PHASES = [{"name": name, "at": at} for name, at in (("Running", 40), ("Restarting", 50), ("Pending", 52), ("Running", 58))]


def test_preparation_decisions_binds_and_restart_of_a_job_become_spans() -> None:
    told = JobHistory(PHASES, STEPS, [pod(0, 31), pod(1, 33), pod(0, 56, version=1), pod(1, 56, version=1)])
    found = spans_of({**ROW, **WHOLE}, PARENT, told)
    assert times(found) == [
        ("job.prepare", 10, 11),
        ("queue.wait", 11, 12),
        ("gang.wait", 12, 30),
        ("pods.start", 30, 40),
        ("job.run", 40, 90),
        ("job.end", 90, 90),
        ("gang.decide", 30, 30),
        ("gang.decide", 55, 55),
        ("gang.bind", 31, 33),
        ("gang.bind", 56, 56),
        ("policy.action", 50, 52),
    ]
    assert len({span.identity for span in found}) == len(found)
    decide, bind, restart = found[6], found[8], found[10]
    said = decide.attributes
    assert (said["session"], said["code_before"], said["nodes_tried"]) == ("s-1", "NodesFull", 7)
    assert found[7].attributes["code_before"] == ""
    assert [(event.at, event.attributes["pod"]) for event in bind.events] == [(31, "train-0"), (33, "train-1")]
    assert restart.attributes["action"] == "RestartJob"
    assert spans_of({**ROW, **WHOLE}, PARENT, told) == found


def test_resumed_job_makes_only_spans_after_its_first_end() -> None:
    told = JobHistory(PHASES, STEPS, [pod(0, 31), pod(0, 56, version=1)])
    found = spans_of({**ROW, **WHOLE}, PARENT, told, since=53)
    assert times(found) == [("job.run", 53, 90), ("job.end", 90, 90), ("gang.decide", 55, 55), ("gang.bind", 56, 56)]


def test_bind_span_of_many_pods_has_64_events_from_first_to_last() -> None:
    (bind,) = [
        span for span in spans_of({**ROW, **WHOLE}, PARENT, JobHistory(pods=[pod(n, n) for n in range(1000)])) if span.events
    ]
    assert (len(bind.events), bind.events[0].at, bind.events[-1].at, bind.attributes["pods"]) == (64, 0, 999, 1000)


def test_recreated_pods_make_one_policy_action_span_and_evicted_pods_make_none() -> None:
    pods = [pod(n, 30, finished=44) for n in range(2)] + [pod(n, 45) for n in range(2)]
    pods += [pod(2, 30, evicted_for="prod"), pod(2, 47)]
    found = [span for span in spans_of({**ROW, **WHOLE}, PARENT, JobHistory(pods=pods)) if span.name == "policy.action"]
    assert [(span.begin, span.end, span.attributes["action"], span.attributes["pods"]) for span in found] == [
        (44, 45, "RestartPod", 2)
    ]


def job(phase: str, at: str, parent: str = PARENT) -> Job:
    annotations = {ANNOTATION: parent} if parent else {}
    meta = Meta(name="train", namespace="team", uid="u", creation_timestamp="2026-01-01T00:00:00Z", annotations=annotations)
    return Job(metadata=meta, status=JobStatus(state=JobState(phase=JobPhase(phase), last_transition_time=at)))


async def see(
    tracer: JobTracer, database: Database, *versions: tuple[int, Job], commits: bool = True, deleted_at: int = 0
) -> None:
    seen = [(version, tracer.rows_of(each, deleted_at, is_deleted=bool(deleted_at))) for version, each in versions]
    await send(tracer, database, seen, commits=commits)


async def send(tracer: JobTracer, database: Database, seen: Sequence[tuple[int, Seen]], *, commits: bool) -> None:
    """Send the ends in rows, and write the rows if the recorder lives until then."""
    batch = Batch(database.cluster)
    for version, rows in seen:
        for table, own, row in rows:
            batch.add(table, version if own is None else own, row)
    await tracer.send_ends(batch)
    if commits:
        await database.write(batch, 0)


@ON_SQLITE
async def test_job_end_spans_are_sent_again_only_if_the_write_was_not_committed(database: Database) -> None:
    collector = Collector()
    runs, ends = job("Running", "2026-01-01T00:01:00Z"), job("Completed", "2026-01-01T00:02:00Z")
    first = JobTracer(database, collector)
    await see(first, database, (1, runs))
    assert collector.spans == []
    await see(first, database, (2, ends), commits=False)  # it dies
    second = JobTracer(database, collector)
    await see(second, database, (2, ends))
    assert set(Counter(span.identity for span in collector.spans).values()) == {2}
    assert len({(span.identity, span.begin, span.end) for span in collector.spans}) == 3, "sent again, the spans are the same"
    third = JobTracer(database, collector)
    await see(third, database, (2, ends), (3, ends))
    assert len(collector.spans) == 6, "what is in the database was told"
    assert (await database.jobs_of(["u"]))["u"]["ended"] == 1_767_225_720


@ON_SQLITE
async def test_spans_are_sent_later_when_the_collector_was_unavailable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyroclast_recorder.following.tracing.RETRY_SECONDS", 0.0)
    collector = Collector()
    collector.is_away = True
    tracer = JobTracer(database, collector)
    await see(tracer, database, (1, job("Failed", "2026-01-01T00:02:00Z")))
    assert collector.spans == []
    assert (await database.jobs_of(["u"]))["u"]["phase"] == "Failed"
    collector.is_away = False
    await see(tracer, database)
    assert [span.name for span in collector.spans] == ["queue.wait", "job.end"]
    await see(tracer, database)
    assert len(collector.spans) == 2


def placed_by(session: str) -> PodGroup:
    """The PodGroup of the Job as the session of that name placed it; all of them do in one second."""
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="train", uid="u", controller=True)
    meta = Meta(
        name="train-u",
        namespace="team",
        uid="g",
        creation_timestamp="2026-01-01T00:00:01Z",
        annotations={ANNOTATION: PARENT},
        owner_references=(owner,),
    )
    message, at = f"session {session} tried 7 nodes", "2026-01-01T00:00:30Z"
    condition = PodGroupCondition(type="Scheduled", status="True", message=message, last_transition_time=at)
    return PodGroup(metadata=meta, status=PodGroupStatus(phase=PodGroupPhase.RUNNING, conditions=(condition,)))


async def see_groups(tracer: JobTracer, database: Database, *versions: tuple[int, PodGroup]) -> None:
    batch = Batch(database.cluster)
    for version, group in versions:
        for table, own, row in tracer.group_rows(group, 1_767_225_640, is_deleted=False):
            batch.add(table, version if own is None else own, row)
    batch.add(pods, 1, pod(0, 1_767_225_631, job="u", namespace="team", requests="{}"))
    await database.write(batch, 0)


@ON_SQLITE
async def test_job_trace_combines_database_rows_and_the_current_batch(database: Database) -> None:
    collector = Collector()
    await see_groups(JobTracer(database, collector), database, (1, placed_by("s-1")))
    await see(JobTracer(database, collector), database, (5, job("Completed", "2026-01-01T00:02:00Z")))
    names = ["job.prepare", "queue.wait", "pods.start", "job.end", "gang.decide", "gang.bind"]
    assert [span.name for span in collector.spans if span.name != "gang.wait"] == names
    async with database.reading() as connection:
        (found,) = await tries(connection, database.cluster, "team", "train", 1_767_225_800)
    assert found["causes"] == [], "steps of a trace are no causes"


@pytest.mark.parametrize("is_restarted", [False, True], ids=["in one batch", "by two recorders"])
async def test_two_scheduler_decisions_in_one_second_make_two_spans_in_order(database: Database, is_restarted: bool) -> None:
    collector = Collector()
    first, second = (7, placed_by("z")), (8, placed_by("a"))
    for versions in [[first], [first, second]] if is_restarted else [[first, second, second]]:
        await see_groups(JobTracer(database, collector), database, *versions)
    await see(JobTracer(database, collector), database, (9, job("Completed", "2026-01-01T00:02:00Z")))
    decided = [span for span in collector.spans if span.name == "gang.decide"]
    assert [span.attributes["session"] for span in decided] == ["z", "a"]
    async with database.reading() as connection:
        (found,) = await tries(connection, database.cluster, "team", "train", 1_767_225_800)
    assert found["causes"] == []


@ON_SQLITE
async def test_deleted_job_gets_an_end_span_at_its_deletion_unless_it_had_ended(new_database: NewDatabase) -> None:
    collector = Collector()
    async with new_database() as database:
        tracer = JobTracer(database, collector)
        runs, ends = job("Running", "2026-01-01T00:01:00Z"), job("Completed", "2026-01-01T00:02:00Z")
        await see(tracer, database, (1, runs))
        await see(tracer, database, (2, runs), deleted_at=1_767_225_700)
        (last,) = [span for span in collector.spans if span.name == "job.end"]
        assert (last.begin, last.attributes["state"]) == (1_767_225_700, "Removed")
        await see(tracer, database, (3, runs), deleted_at=1_767_225_701)
        assert len([span for span in collector.spans if span.name == "job.end"]) == 1
    async with new_database() as database:
        collector.spans.clear()
        tracer = JobTracer(database, collector)
        await see(tracer, database, (1, ends))
        await see(tracer, database, (2, ends), deleted_at=1_767_226_000)
        assert [span.attributes["state"] for span in collector.spans if span.name == "job.end"] == ["Completed"]


def flow(phase: str, completed: str | None, **annotations: str) -> JobFlow:
    meta = Meta(name="etl", namespace="team", uid="f", creation_timestamp="2026-01-01T00:00:00Z", annotations=annotations)
    return JobFlow(metadata=meta, status=FlowStatus(state=FlowState(phase=FlowPhase(phase)), completion_time=completed))


async def see_flow(tracer: JobTracer, database: Database, *seen: JobFlow, deleted_at: int = 0, commits: bool = True) -> None:
    rows = [(1, tracer.flow_rows(each, deleted_at, is_deleted=bool(deleted_at))) for each in seen]
    await send(tracer, database, rows, commits=commits)


@ON_SQLITE
async def test_jobflow_span_is_identical_when_resent_and_not_sent_again_after_the_commit(database: Database) -> None:
    collector = Collector()
    runs, ends = flow("Running", None), flow("Succeed", "2026-01-01T00:02:00Z")
    await see_flow(JobTracer(database, collector), database, runs)
    assert collector.spans == []
    await see_flow(JobTracer(database, collector), database, ends, commits=False)  # it dies
    tracer = JobTracer(database, collector)
    await see_flow(tracer, database, ends)
    once, again = collector.spans
    assert once == again, "sent again, it is the same span"
    assert (once.name, once.parent, once.identity) == ("flow.run", "", flow_identity("f"))
    assert (once.begin, once.end, once.attributes["state"]) == (1_767_225_600, 1_767_225_720, "Succeed")
    await see_flow(tracer, database, ends, ends)
    await see_flow(JobTracer(database, collector), database, ends, deleted_at=1_767_226_000)
    assert len(collector.spans) == 2, "what is in the database was told"


@ON_SQLITE
async def test_resumed_jobflow_gets_a_second_span_below_its_first_span(database: Database) -> None:
    collector = Collector()
    first, second = flow("Failed", "2026-01-01T00:02:00Z"), flow("Succeed", "2026-01-01T00:05:00Z")
    tracer = JobTracer(database, collector)
    await see_flow(tracer, database, first)
    await see_flow(tracer, database, flow("Running", None))
    await see_flow(tracer, database, second)
    assert times(collector.spans) == [("flow.run", 1_767_225_600, 1_767_225_720), ("flow.run", 1_767_225_720, 1_767_225_900)]
    assert collector.spans[1].parent == context_within(flow_identity("f"))


@ON_SQLITE
async def test_jobflow_deleted_while_running_ends_its_span_in_the_annotated_trace(database: Database) -> None:
    collector = Collector()
    runs = flow("Running", None, **{ANNOTATION: PARENT})
    await see_flow(JobTracer(database, collector), database, runs, deleted_at=1_767_225_660)
    (span,) = collector.spans
    assert (span.parent, span.end, span.attributes["state"]) == (PARENT, 1_767_225_660, "Removed")


@ON_SQLITE
@pytest.mark.parametrize("parent", ["", "broken"])
async def test_job_without_a_valid_trace_annotation_sends_no_spans(database: Database, parent: str) -> None:
    collector = Collector()
    await see(JobTracer(database, collector), database, (1, job("Completed", "2026-01-01T00:01:00Z", parent)))
    assert collector.spans == []
