"""One trace per Job: the spans that are made at its end, each once though recorders come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pyroclast.api.enums import JobPhase
from pyroclast.api.records.jobs import Job, JobState, JobStatus
from pyroclast.api.records.meta import Meta
from pyroclast.runtime.traces import ANNOTATION, PastSpan, Traces
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs
from pyroclast_recorder.following.tracing import JobTracer, spans_of

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
def test_spans_follow_each_other_without_a_hole(seen: dict[str, int], told: list[Any]) -> None:
    found = spans_of({**ROW, **seen}, PARENT)
    assert times(found) == told
    assert {span.parent for span in found} == {PARENT}
    assert len({span.identity for span in found}) == len(found)
    assert found[-1].attributes["state"] == "Completed"


def job(phase: str, at: str) -> Job:
    meta = Meta(
        name="train", namespace="team", uid="u", creation_timestamp="2026-01-01T00:00:00Z", annotations={ANNOTATION: PARENT}
    )
    return Job(metadata=meta, status=JobStatus(state=JobState(phase=JobPhase(phase), last_transition_time=at)))


async def see(tracer: JobTracer, database: Database, *versions: tuple[int, Job], commits: bool = True) -> None:
    batch = Batch(database.cluster)
    for version, each in versions:
        for table, own, row in tracer.rows_of(each, 0, is_deleted=False):
            batch.add(table, version if own is None else own, row)
    await tracer.send_ends(batch)
    if commits:
        await database.write(batch, 0)


@ON_SQLITE
async def test_an_end_is_told_once_and_again_only_if_it_was_not_committed(new_database: NewDatabase) -> None:
    collector = Collector()
    runs, ends = job("Running", "2026-01-01T00:01:00Z"), job("Completed", "2026-01-01T00:02:00Z")
    async with new_database() as database:
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
async def test_a_collector_that_is_away_gets_the_spans_later(new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast_recorder.following.tracing.RETRY_SECONDS", 0.0)
    collector = Collector()
    collector.is_away = True
    async with new_database() as database:
        tracer = JobTracer(database, collector)
        await see(tracer, database, (1, job("Failed", "2026-01-01T00:02:00Z")))
        assert collector.spans == []
        assert (await database.jobs_of(["u"]))["u"]["phase"] == "Failed"
        collector.is_away = False
        await see(tracer, database)
        assert [span.name for span in collector.spans] == ["queue.wait", "job.end"]
        await see(tracer, database)
        assert len(collector.spans) == 2


def test_jobs_without_a_trace_are_not_traced() -> None:
    assert jobs.name == "jobs"
    tracer = JobTracer(None, Collector())  # type: ignore[arg-type]
    list(tracer.rows_of(Job(metadata=Meta(uid="v", annotations={ANNOTATION: "broken"})), 0, is_deleted=False))
    assert tracer._contexts == {}
