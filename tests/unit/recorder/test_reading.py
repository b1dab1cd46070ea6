"""The HTTP API and the commands that ask it, on both databases."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.types import CLUSTER_ROLE_BINDINGS, NAMESPACES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Access, Denied
from pyroclast_cli import programs
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import (
    gaps,
    job_causes,
    job_phases,
    jobs,
    node_states,
    owners,
    pods,
    predictions,
    reservations,
)
from pyroclast_recorder.reading.cluster_use import cluster_rows, reserved_amounts
from pyroclast_recorder.reading.outcomes import prediction_rows, state_of
from pyroclast_recorder.reading.questions import BadQuestion, history_question, usage_question
from pyroclast_recorder.reading.server import HistoryServer
from tests.unit.running import running_server

from .conftest import ON_SQLITE, write

NOON = 1_795_521_600  # 2026-11-24T12:00:00Z
NOW = NOON + 3600


def job(uid: str, name: str, **columns: Any) -> dict[str, Any]:
    row = {"uid": uid, "namespace": "team", "name": name, "queue": "red", "submitted_by": "ann", "created": NOON, "retries": 0}
    return {**row, "gang_size": 2, "phase": "Completed", "started": NOON + 60, "ended": NOON + 1860, **columns}


def pod(uid: str, owner: str, **columns: Any) -> dict[str, Any]:
    row = {"uid": uid, "job": owner, "namespace": "team", "name": uid, "task": "worker", "node": uid, "bound": NOON + 60}
    held = {"requests": '{"cpu":2000,"nvidia.com/gpu":1000}', "finished": NOON + 1860, "released_high": NOON + 1861}
    return {**row, **held, "phase": "Succeeded", **columns}


ROWS = [
    (jobs, job("u1", "train", created=NOON - 100, phase="Failed", reason="PodFailed", message="a pod failed")),
    (jobs, job("u2", "train")),
    (jobs, job("u3", "etl-step", queue="blue", submitted_by="bob", owner_kind="JobFlow", owner_name="etl", owner_uid="f")),
    (jobs, job("u4", "secret", namespace="other", submitted_by="eve")),
    (jobs, job("u5", "now", phase="Running", ended=None, queue="blue")),
    (job_phases, {"job": "u2", "at": NOON + 60, "name": "Running"}),
    (job_phases, {"job": "u2", "at": NOON + 1860, "name": "Completed"}),
    (job_phases, {"job": "u2", "at": NOON + 1860, "name": "Completing"}),
    (job_causes, {"job": "u2", "at": NOON + 5, "name": "NotEnoughResources", "message": "0/2 nodes"}),
    (pods, pod("p1", "u1", phase="Failed", reason="OOMKilled", exit_code=137)),
    (pods, pod("p2", "u2")),
    (pods, pod("p3", "u2", evicted_for="for the gang of default/big", reason="PreemptionByScheduler")),
    (pods, pod("p4", "u3", requests='{"cpu":500}', domain="rack-7")),
    (pods, pod("p5", "u4", namespace="other")),
    (pods, pod("p6", "u5", node="n2", finished=None, released_high=None, phase="Running")),
    (gaps, {"kind": "pods", "since": NOON, "until": NOON + 30, "why": "x"}),
    (node_states, {"uid": "n1", "at": NOON - 3600, "name": "n1", "allocatable": '{"cpu":16000}', "is_down": 0}),
    (node_states, {"uid": "n2", "at": NOON, "name": "n2", "allocatable": '{"cpu":8000,"nvidia.com/gpu":8000}', "is_down": 0}),
    (node_states, {"uid": "n2", "at": NOON + 1800, "name": "n2", "allocatable": '{"cpu":8000}', "is_down": 1}),
    (node_states, {"uid": "n2", "at": NOON + 2700, "name": "n2", "allocatable": "{}", "is_down": 0}),
    (owners, {"uid": "f", "kind": "JobFlow", "namespace": "team", "name": "etl", "phase": "Succeed", "ended": NOON + 1900}),
    (reservations, {"uid": "g1", "at": NOON, "nodes": '["n2"]'}),
    (reservations, {"uid": "g1", "at": NOON + 2400, "nodes": "[]"}),
    (reservations, {"uid": "g2", "at": NOON + 600, "nodes": '["n2","gone"]'}),
]


@pytest.fixture
async def url(database: Database) -> AsyncIterator[str]:
    await write(database, [(table, 1, row) for table, row in ROWS], NOW)

    async def settle() -> None:
        await database.settle(NOW)

    async with Client(load_config("", master="http://127.0.0.1:1")) as nobody:
        server = HistoryServer(database, Access(nobody, trusts_local=True), lambda: float(NOW), settle)
        await server.start("127.0.0.1:0")
        yield f"http://127.0.0.1:{server.port}"
        await server.stop()


async def get(url: str, path: str, status: int = 200) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/{path}") as answer:
        assert answer.status == status
        found: dict[str, Any] = await answer.json()
        return found


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["etl-step", "now", "secret", "train", "train"]),
        ("namespace=team&queue=red", ["train", "train"]),
        ("user=bob", ["etl-step"]),
        ("flow=etl", ["etl-step"]),
        ("name=t*n", ["train", "train"]),
        ("name=_rain", []),
        ("state=outofmemory", ["train"]),
        ("state=Running", ["now"]),
        ("since=2026-11-24T11:59:00Z&namespace=team&queue=red", ["train"]),
        ("until=2h", []),
        ("namespace=nowhere", []),
    ],
)
async def test_job_history_is_filtered_by_query_parameters(url: str, query: str, names: list[str]) -> None:
    answer = await get(url, f"jobs?{query}")
    assert sorted(each["name"] for each in answer["items"]) == names
    assert answer["isCut"] is False


async def test_job_history_limit_drops_the_oldest_job_and_sets_is_cut(url: str) -> None:
    answer = await get(url, "jobs?limit=4")
    assert (len(answer["items"]), answer["isCut"]) == (4, True)
    assert "u1" not in {each["uid"] for each in answer["items"]}


async def test_job_endpoint_returns_all_jobs_of_a_name_newest_first_with_details(url: str) -> None:
    newest, oldest = (await get(url, "jobs/team/train"))["items"]
    assert [oldest["uid"], oldest["state"], oldest["exitCode"]] == ["u1", "OutOfMemory", 137]
    assert [step["name"] for step in newest["phases"]] == ["Running", "Completing", "Completed"]
    assert newest["causes"] == [{"at": "2026-11-24T12:00:05Z", "name": "NotEnoughResources", "message": "0/2 nodes"}]
    assert newest["evictions"][0]["message"] == "for the gang of default/big"
    assert newest["asked"] == {"cpu": 2 * 2000 * 1800, "nvidia.com/gpu": 2 * 1000 * 1800}
    assert (newest["waitedSeconds"], newest["elapsedSeconds"], newest["pods"], newest["nodes"]) == (60, 1800, 2, 2)
    assert (await get(url, "jobs/team/nothing"))["items"] == []


async def test_job_answer_includes_its_owner_with_phase_and_end(url: str) -> None:
    (found,) = (await get(url, "jobs/team/etl-step"))["items"]
    nothing = {"user": None, "created": None, "removed": None}
    ended = {"phase": "Succeed", "ended": "2026-11-24T12:31:40Z"}
    assert found["domains"] == ["rack-7"]
    assert found["madeBy"] == {"kind": "JobFlow", "namespace": "team", "name": "etl", "uid": "f", **ended, **nothing}
    (other,) = (await get(url, "jobs/team/now"))["items"]
    assert other["madeBy"] is None


GROUPINGS = [
    *itertools.product(
        ("queue", "user", "namespace", "flow", "queue,user,namespace,flow", "resource"), ("hour", "day", "week", "month", "all")
    )
]


async def test_usage_adds_up_to_the_same_however_it_is_grouped(url: str) -> None:
    running = 3600 - 60  # what still runs is counted until now
    asked = {"cpu": 4 * 2000 * 1800 + 500 * 1800 + 2000 * running, "nvidia.com/gpu": 4 * 1000 * 1800 + 1000 * running}
    for by, per in GROUPINGS:
        items = (await get(url, f"usage?by={by}&per={per}"))["items"]
        total = {name: sum(each["asked"] for each in items if each["resource"] == name) for name in asked}
        assert total == asked, (by, per)
        if by != "resource":
            cpu = [each for each in items if each["resource"] == "cpu"]
            assert (sum(each["jobs"] for each in cpu), sum(each["failed"] for each in cpu)) == (4, 1), (by, per)


@pytest.mark.parametrize(("query", "hours"), [("since=1h", 1), ("since=90m", 2), ("since=30m", 1)])
async def test_cluster_report_parts_add_up_to_the_allocatable_of_the_nodes(url: str, query: str, hours: int) -> None:
    answer = await get(url, f"cluster?{query}")
    rows = {each["resource"]: each for each in answer["items"]}
    assert answer["until"] == "2026-11-24T13:00:00Z"
    for row in rows.values():
        assert row["allocated"] + row["reserved"] + row["idle"] + row["down"] == row["total"]
    assert rows["cpu"]["reserved"] == 8000 * 60 + 6000 * 1740, "what the pod on n2 leaves, while that is up"
    cpu = 4 * 2000 * 1800 + 500 * 1800 + 2000 * 3540
    assert (rows["cpu"]["allocated"], rows["cpu"]["down"]) == (cpu, 8000 * 900)
    assert rows["cpu"]["total"] == hours * 3600 * 16_000 + 8000 * 2700
    assert rows["nvidia.com/gpu"]["total"] == 8000 * 1800


states = st.lists(
    st.builds(
        lambda uid, at, cpu, down: {"uid": uid, "at": at, "allocatable": f'{{"cpu":{cpu}}}', "is_down": down},
        st.sampled_from("abc"),
        st.integers(0, 100),
        st.integers(0, 9),
        st.integers(0, 1),
    ),
    unique_by=lambda state: (state["uid"], state["at"]),
).map(lambda found: sorted(found, key=lambda state: (state["uid"], state["at"])))


@given(states, st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 50), st.integers(50, 120))
def test_cluster_rows_are_non_negative_and_add_up_to_the_total(
    of_nodes: list[Any], held: int, kept: int, since: int, until: int
) -> None:
    for row in cluster_rows(of_nodes, {"cpu": held}, {"cpu": kept}, since, until):
        assert row["allocated"] + row["reserved"] + row["idle"] + row["down"] == row["total"]
        assert all(value >= 0 for value in row.values() if isinstance(value, int))


keeping = st.lists(
    st.builds(
        lambda uid, at, nodes: {"uid": uid, "at": at, "nodes": json.dumps(sorted(nodes))},
        st.sampled_from("gh"),
        st.integers(0, 100),
        st.sets(st.sampled_from("abc")),
    ),
    unique_by=lambda row: (row["uid"], row["at"]),
).map(lambda found: sorted(found, key=lambda row: (row["uid"], row["at"])))
holding = st.lists(
    st.builds(
        lambda node, begin, length, cpu: {
            **dict.fromkeys(("released_low", "released_high", "finished")),
            "node": node,
            "bound": begin,
            "requests": f'{{"cpu":{cpu}}}',
            **({} if length is None else dict.fromkeys(("released_low", "released_high", "finished"), begin + length)),
        },
        st.sampled_from("abc"),
        st.integers(0, 100),
        st.none() | st.integers(0, 60),
        st.integers(1, 9),
    )
)


@given(states, keeping, holding, st.integers(0, 50), st.integers(50, 120))
def test_reserved_amount_is_the_free_part_of_reserved_nodes_summed_per_second(
    of_nodes: list[Any], kept: list[Any], of_pods: list[Any], since: int, until: int
) -> None:
    """Looked at second by second."""
    named = [{**state, "name": state["uid"]} for state in of_nodes]

    def last(rows: list[Any], uid: str, at: int) -> Any:
        return next((row for row in reversed(rows) if row["uid"] == uid and row["at"] <= at), None)

    expected = 0
    for at in range(since, until):
        keepers = [row for uid in "gh" if (row := last(kept, uid, at))]
        for node in {name for row in keepers for name in json.loads(row["nodes"])}:
            state = last(named, node, at)
            here = [pod for pod in of_pods if pod["node"] == node and pod["bound"] <= at]
            here = [pod for pod in here if pod["finished"] is None or pod["finished"] > at]
            used = sum(json.loads(pod["requests"])["cpu"] for pod in here)
            if state is not None and not state["is_down"]:
                expected += max(0, json.loads(state["allocatable"])["cpu"] - used)
    assert reserved_amounts(named, kept, of_pods, since, until).get("cpu", 0) == expected


async def test_usage_includes_pods_of_a_namespace_without_jobs(url: str, database: Database) -> None:
    await write(database, [(pods, 1, pod("g-0", "", job=None, namespace="gangs", queue="gold", requests='{"cpu":1000}'))], NOW)
    items = (await get(url, "usage?by=namespace,queue"))["items"]
    assert [(each["queue"], each["asked"]) for each in items if each["namespace"] == "gangs"] == [("gold", 1000 * 1800)]
    (of_queue,) = (await get(url, "usage?queue=gold"))["items"]
    assert of_queue["asked"] == 1000 * 1800


async def test_usage_answer_reports_the_seconds_of_recording_gaps(url: str) -> None:
    assert (await get(url, "usage"))["gapSeconds"] == 30


async def test_waits_answer_groups_wait_times_by_queue_and_job_size(url: str) -> None:
    items = (await get(url, "waits"))["items"]
    assert [(each["queue"], each["pods"], each["jobs"]) for each in items] == [("blue", "2-8", 2), ("red", "2-8", 3)]
    assert (items[1]["p50Seconds"], items[1]["p99Seconds"]) == (60, 160)


def foretold(job_: str, at: int, p10: int, p90: int, basis: str = "3 declared run times, 1 from history (n=30 at least)") -> Any:
    return predictions, {"job": job_, "at": at, "p10": p10, "p50": (p10 + p90) // 2, "p90": p90, "basis": basis}


ESTIMATES = [
    foretold("u2", NOON + 1, NOON + 40, NOON + 80),
    foretold("u2", NOON + 20, NOON + 70, NOON + 80),  # in the same hour
    foretold("u2", NOON + 70, NOON + 700, NOON + 800),  # of another try
    foretold("u1", NOON - 100, NOON - 90, NOON - 50),
    foretold("u3", NOON + 10, NOON + 90, NOON + 100, basis=""),
    foretold("u4", NOON + 10, NOON + 90, NOON + 100),
]


async def test_evictions_answer_counts_who_took_room_from_whom(database: Database, url: str) -> None:
    said = "volcano: preempting to accommodate a higher priority pod (reclaim) for t/j in queue blue"
    listed = [("red", "u1", said), ("red", "u1", said), ("red", "u2", f"{said}, t/k in queue other"), ("red", "u1", "by another")]
    listed += [("blue", "u4", said.replace(" for t/j in queue blue", "").replace("reclaim", "shuffle")), ("red", "u1", None)]
    rows = [
        {"uid": f"e{i}", "queue": queue, "job": job, "namespace": "team", "evicted_for": message, "released_high": NOON}
        for i, (queue, job, message) in enumerate(listed)
    ]
    await write(database, [(pods, 0, row) for row in rows], NOW)
    items = (await get(url, "evictions?namespaces=team"))["items"]
    assert [each for each in items if each["queue"]] == [
        {"queue": "red", "for": "blue", "action": "reclaim", "pods": 3, "jobs": 2},
        {"queue": "blue", "for": "", "action": "shuffle", "pods": 1, "jobs": 1},
        {"queue": "red", "for": "", "action": "", "pods": 1, "jobs": 1},
    ]
    assert (await get(url, "evictions?namespaces=other"))["items"] == []


async def test_estimates_answer_compares_predicted_with_actual_starts_per_queue(database: Database, url: str) -> None:
    rows = [(table, 2, row) for table, row in ESTIMATES]
    await write(database, [*rows, (jobs, 0, {"uid": "u3", "placed": NOON + 55})], NOW)
    red = {"queue": "red", "predictions": 2, "held": 1, "early": 0, "late": 1}
    sums = {"p50WidthSeconds": 40, "p50ErrorSeconds": 65, "basis": {"declared": 6, "history": 2}}
    blue = {"queue": "blue", "predictions": 1, "held": 0, "early": 1, "late": 0}
    error = {"p50WidthSeconds": 10, "p50ErrorSeconds": 40, "basis": {}}
    assert (await get(url, "estimates?namespaces=team"))["items"] == [blue | error, red | sums]
    assert sum(each["predictions"] for each in (await get(url, "estimates"))["items"]) == 4
    assert (await get(url, "estimates?until=2h"))["items"] == []
    assert "since" in (await get(url, "estimates?since=soon", 400))["message"]


def test_predictions_of_a_waiting_job_are_evaluated_once_per_hour() -> None:
    _, row = foretold("a", 0, 9000, 11_000)
    rows = [{**row, "at": at, "queue": "q", "actual": 10_000} for at in range(0, 10_000, 300)]
    (found,) = prediction_rows(rows)
    assert (found["predictions"], found["held"]) == (3, 3)


@ON_SQLITE
async def test_namespaces_parameter_limits_history_usage_and_waits_to_those_namespaces(url: str) -> None:
    assert {each["namespace"] for each in (await get(url, "jobs?namespaces=other,none"))["items"]} == {"other"}
    assert {each["namespace"] for each in (await get(url, "usage?by=namespace&namespaces=team"))["items"]} == {"team"}
    assert (await get(url, "waits?namespaces=none"))["items"] == []
    assert "at most 200" in (await get(url, "waits?namespaces=" + ",".join(["x"] * 201), 400))["message"]


@ON_SQLITE
async def test_a_job_is_found_by_its_uid(url: str) -> None:
    (found,) = (await get(url, "uids/u1"))["items"]
    assert (found["name"], found["state"]) == ("train", "OutOfMemory")
    await get(url, "uids/none", 404)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("jobs?since=yesterday", 400, 'since: "yesterday" is neither a time'),
        ("jobs?since=1h&until=2h", 400, "is later than until"),
        ("jobs?limit=-1", 400, 'limit: "-1" is no number from 1 to 10000'),
        ("jobs?limit=1000000", 400, "is no number from 1 to 10000"),
        ("jobs?limit=0000000099999999", 400, "is no number from 1 to 10000"),
        ("usage?since=999999w&per=month", 400, 'since: "999999w" is too far away; give a time between 1970 and'),
        ("usage?until=30000-01-01T00:00:00Z&per=week", 400, "until: "),
        ("usage?until=9999-01-01T00:00:00Z&per=week", 400, 'until: "9999-01-01T00:00:00Z" is too far away'),
        ("jobs?color=red", 400, 'there is no parameter "color"'),
        ("jobs?queue=" + "x" * 400, 400, "queue: at most 317 characters"),
        ("usage?by=team", 400, 'by: there is no "team"; there are queue, user, namespace, flow, resource'),
        ("usage?per=year", 400, 'per: there is no "year"'),
        ("nothing", 404, "there is no /api/v1/nothing"),
    ],
)
@ON_SQLITE
async def test_invalid_query_parameters_and_paths_return_400_or_404_with_the_reason(
    url: str, path: str, status: int, words: str
) -> None:
    assert words in (await get(url, path, status))["message"]


@ON_SQLITE
async def test_delete_request_to_the_history_api_returns_405(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.delete(f"{url}/api/v1/jobs") as answer:
        assert answer.status == 405


def test_history_query_defaults_to_seven_days_and_usage_is_always_grouped_by_resource() -> None:
    assert history_question({}, NOW).since == NOW - 7 * 86_400
    assert usage_question({"by": "user"}, NOW).by == ("user", "resource")
    with pytest.raises(BadQuestion, match="too far away"):
        history_question({"since": "0001-01-01T00:00:00Z"}, NOW)


@pytest.mark.parametrize(
    ("columns", "reasons", "state"),
    [
        ({"phase": "Completed", "ended": 4}, {"OOMKilled"}, "Completed"),
        ({"phase": "Failed", "ended": 4, "removed": 5}, {None, "OOMKilled", "Evicted"}, "OutOfMemory"),
        ({"phase": "Aborted", "ended": 4}, {"PreemptionByScheduler"}, "Evicted"),
        ({"phase": "Failed", "ended": 4}, {"Error"}, "Failed"),
        ({"phase": "Running", "removed": 5}, {"Error"}, "Removed"),
        ({"phase": "Running", "ended": 4}, set(), "Removed"),
        ({"phase": "Running"}, set(), "Running"),
        ({}, set(), "Pending"),
    ],
)
def test_job_state_is_derived_from_phase_end_removal_and_pod_reasons(
    columns: dict[str, Any], reasons: set[str | None], state: str
) -> None:
    assert state_of({"phase": None, "ended": None, "removed": None, **columns}, reasons) == state


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        (["history", "-A", "--no-headers", "-u", "bob"], 0, "team etl-step blue bob Completed 0"),
        (["history", "-A", "-o", "wide", "--state", "OutOfMemory"], 0, "u1"),
        (["history", "-A", "--queue", "none"], 0, "No Jobs were submitted in that time"),
        (["history", "-n", "team", "train"], 0, "There were 2 Jobs of this name; --all shows all of them"),
        (["history", "-n", "team", "job/train", "--all"], 0, "State: OutOfMemory (PodFailed: a pod failed)"),
        (["history", "-n", "team", "etl-step"], 0, "Made by: JobFlow/etl, Succeed, ended 2026-11-24T12:31:40Z"),
        (["history", "-n", "team", "etl-step"], 0, "Pods: 1 on 1 nodes in rack-7, 0 retries"),
        (["history", "-n", "team", "gone"], 4, "the recorder has no Job team/gone"),
        (["history", "--since", "never"], 1, 'the recorder refuses: since: "never" is neither a time'),
        (["history", "--limit", "-1"], 1, "--limit: -1 is not between 0 and 10000"),
        (["efficiency", "-n", "team", "train"], 0, "worker nvidia.com/gpu 1.00 -"),
        (["report", "usage", "--by", "user", "--no-headers"], 0, "bob cpu 0.25 - - - 1 0"),
        (["report", "usage", "--per", "day", "-q", "red"], 0, "The recorder could not see 30s of that time"),
        (["report", "waits", "-o", "csv"], 0, "queue,pods,jobs,p50Seconds,p90Seconds,p99Seconds"),
    ],
)
@ON_SQLITE
async def test_vcctl_history_efficiency_and_report_print_recorder_answers_or_the_error(
    url: str, arguments: list[str], status: int, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    whole = [*arguments, "--recorder", url, "--master", "http://127.0.0.1:1"]
    assert await asyncio.to_thread(programs.vcctl, whole) == status
    printed = capsys.readouterr()
    assert shown in " ".join((printed.out + printed.err).split())


@pytest.mark.parametrize("command", ["history -A", "history -n team train", "report usage", "report waits"])
@ON_SQLITE
async def test_vcctl_history_and_report_print_json_documents(url: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = [*command.split(), "-o", "json", "--recorder", url, "--master", "http://127.0.0.1:1"]
    assert await asyncio.to_thread(programs.vcctl, whole) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["apiVersion"] == "view.pyroclast.dev/v1"
    assert document["items"]


@pytest.mark.parametrize(
    ("recorder", "status", "words"),
    [
        ("http://127.0.0.1:1", 5, "the recorder at http://127.0.0.1:1 does not answer"),
        ("nonsense", 1, '--recorder: "nonsense" is no URL'),
        ("", 5, "it is not known where the recorder is: kubectl"),
    ],
)
def test_vcctl_history_reports_an_unreachable_invalid_or_unknown_recorder_url(
    recorder: str, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert programs.vcctl(["history", "--recorder", recorder, "--master", "http://127.0.0.1:1"]) == status
    assert words in capsys.readouterr().err


def request_from(address: str, token: str = "", host: str = "localhost") -> Any:
    headers = {"Host": host, **({"Authorization": f"Bearer {token}"} if token else {})}
    request = make_mocked_request("GET", "/api/v1/jobs", headers=headers)
    request.transport.get_extra_info.side_effect = lambda name, default=None: (address, 1234) if name == "peername" else default
    return request


async def test_a_reader_sees_the_namespaces_whose_jobs_it_may_list() -> None:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        group = "rbac.authorization.k8s.io"
        rule = {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["list"]}
        await client.create(ROLES, {"metadata": {"name": "r", "namespace": "team"}, "rules": [rule]})
        tokens = {}
        for name in ("member", "auditor", "stranger"):
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": "team"}})
            made = await client.create(SERVICE_ACCOUNTS, {"spec": {}}, namespace="team", name=name, subresource="token")
            tokens[name] = made["status"]["token"]
        subjects = {name: [{"kind": "ServiceAccount", "name": name, "namespace": "team"}] for name in tokens}
        role = {"apiGroup": group, "kind": "Role", "name": "r"}
        await client.create(
            ROLE_BINDINGS, {"metadata": {"name": "r", "namespace": "team"}, "roleRef": role, "subjects": subjects["member"]}
        )
        admin = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
        await client.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": "a"}, "roleRef": admin, "subjects": subjects["auditor"]})
        await server.settle()
        access = Access(client)
        seen = {
            name: await (await access.reader(request_from("10.0.0.9", token))).visible(["team", "other"])
            for name, token in tokens.items()
        }
        assert seen == {"member": ["team"], "auditor": ["team", "other"], "stranger": []}
        server.forget_requests()
        await (await access.reader(request_from("10.0.0.9", tokens["member"]))).visible(["team", "other"])
        assert not server.requests(), "answers are remembered for a while"
        many, names = HistoryServer(None, access, float, None), [f"n{i}" for i in range(5000)]  # type: ignore[arg-type]
        with pytest.raises(Denied, match="concerns 5000 namespaces"):
            await many._visible(await access.reader(request_from("10.0.0.9", tokens["member"])), (), names)
        assert await many._visible(await access.reader(request_from("10.0.0.9", tokens["auditor"])), (), names) == names
        trusting = Access(client, trusts_local=True)
        assert await (await trusting.reader(request_from("127.0.0.1"))).visible(["team", "other"]) == ["team", "other"]
        for each, address, token, host in (
            (trusting, "10.0.0.9", "", "localhost"),
            (access, "10.0.0.9", "forged", "localhost"),
            (access, "127.0.0.1", "", "localhost"),
            (trusting, "127.0.0.1", "", "rebound.example"),
        ):
            with pytest.raises(Denied) as denied:
                await each.reader(request_from(address, token, host))
            assert denied.value.status == 401
