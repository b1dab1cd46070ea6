"""Budgets of queues: whom they keep out, for how long, what the gang is told, and that nobody is evicted for one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.budgets import Spent, period_at, read_budget, written_spent
from pyroclast.api.keys import QUEUE_BUDGET, QUEUE_BUDGET_SPENT, RUNNING_ESTIMATE
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.budgets import BudgetStanding
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.loop import BudgetReports
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take
from tests.unit.scheduler.deciding import committed, configured, evicted, placed

GPU = "nvidia.com/gpu"
HOUR = 3600.0
TEXT = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}]
- plugins: [{{name: predicates}}, {{name: {quota}}}, {{name: nodeorder}}]
"""
MONTH_ENDS = "2027-02-01T00:00:00+00:00"  # the scenarios' now is 2027-01-15T08:00:00Z


def text_of(limit: str = "100h", **fields: Any) -> str:
    return json.dumps({"period": "month", "limits": {GPU: limit}, **fields})


def spent_of(budget: str, hours: float, *, age: float = 0.0, since: int | None = None, now: float = objects.NOW) -> str:
    read = read_budget(budget)
    begin = period_at(read.period, read.zone, now - age, first=int(now - HOUR)).begin if since is None else since
    return written_spent(Spent(int(now - age), begin, {GPU: hours}, {}))


class World:
    """Sixteen GPUs, queues `above` and `team` below it, and `others`; gangs come as the tests say."""

    def __init__(self, *, actions: str = "enqueue, allocate, backfill", quota: str = "proportion") -> None:
        text = TEXT.format(actions=actions, quota=quota)
        self.configuration = configured(text)
        self.cache = Cache()
        self.queues: dict[str, records.Queue] = {}
        self.evicted: list[str] = []
        self.queue("root")
        self.queue("above")
        self.queue("team", parent="above")
        self.queue("others")
        self.cache.node_changed(None, objects.node(["n", 64, "64Gi", {GPU: 16}]))

    def queue(self, name: str, budget: str = "", spent: str = "", **options: Any) -> None:
        annotations = {QUEUE_BUDGET: budget, QUEUE_BUDGET_SPENT: spent}
        before = self.queues.get(name)
        if before is not None and before.spec.parent:
            options.setdefault("parent", before.spec.parent)
        options["annotations"] = {key: value for key, value in annotations.items() if value}
        made = self.queues[name] = objects.queue([name, options])
        self.cache.queue_changed(before, made)

    def budget(self, hours: float, *, queue: str = "team", limit: str = "100h", **given: Any) -> None:
        """Give a queue a budget of which so many hours are spent. `given`: more of the budget, of what is spent, of the queue."""
        written = {key: given.pop(key) for key in ("age", "since", "now") if key in given}
        options = {key: given.pop(key) for key in ("capability", "state") if key in given}
        text = text_of(limit, **given)
        self.queue(queue, text, spent_of(text, hours, **written), **options)

    def gang(self, name: str, queue: str = "team", gpus: int = 1, *, is_running: bool = False, **options: Any) -> None:
        estimate = options.pop("estimate", "")
        shown = {"annotations": {RUNNING_ESTIMATE: estimate}} if estimate else options.pop("shown", {})
        resources = options.pop("resources", {GPU: gpus})
        phase = options.pop("phase", "Running" if is_running else "Pending")
        row = [name, queue, 1, {"phase": phase, "minRes": resources, **shown, "class": options.pop("class", None)}]
        self.cache.group_changed(None, objects.pod_group(row))
        if is_running:
            self.cache.pod_changed(None, objects.pod([f"{name}-0", name, "n", 1, "1Gi", {GPU: gpus, **options}]))

    def pods(self, name: str, count: int, **options: Any) -> None:
        """Let so many pods of a gang, each with one GPU, wait beside those that it has."""
        for number in range(1, count + 1):
            self.cache.pod_changed(None, objects.pod([f"{name}-{number}", name, "-", 1, "1Gi", {GPU: 1, **options}]))

    def placed(self, after: float = 0.0) -> list[str]:
        """The gangs of the pods that a session places."""
        self.session(after)
        assert assume_all(self.cache, list(self.bound.items())) is None
        return sorted(uid.removeprefix("t-").rpartition("-")[0] for uid in self.bound)

    def session(self, after: float = 0.0, **ports: Any) -> Outcome:
        outcome, commits = committed(self.cache, self.configuration, now=objects.NOW + after, **ports)
        take(self.cache, outcome)
        self.evicted += evicted(commits)
        self.bound = placed(commits)
        self.told = {each.task.job: each.message for each in outcome.waiting}
        return outcome

    def decided(self, name: str, after: float = 0.0, **ports: Any) -> str:
        """The phase that a session leaves a gang in, or why it waits."""
        self.session(after, **ports)
        return self.state(name)

    def state(self, name: str) -> str:
        group = self.cache.groups.current(f"t/{name}")
        assert group is not None
        if group.status.phase != "Pending":
            return str(group.status.phase)
        messages = [each.message for each in group.status.conditions if each.type == "Unschedulable"]
        return pending.summary_of(messages[-1]) if messages else "Pending"


def test_a_spent_budget_holds_new_gangs_and_names_the_start_of_the_next_period() -> None:
    world = World()
    world.budget(100.5)
    world.gang("runs", gpus=4, is_running=True)
    world.gang("new")
    want = f"BudgetSpent: not now: the budget of queue team for this month is used up: 100 of 100 hours of {GPU} are spent; "
    assert world.decided("new") == f"{want}the next one begins at {MONTH_ENDS}"
    assert world.evicted == []


def test_a_gang_held_by_a_budget_is_retried_only_on_changes_in_its_own_queue() -> None:
    world = World(quota="capacity")
    budget = text_of()
    world.queue("team", budget, spent_of(budget, 99.5, age=300))
    world.gang("runs", gpus=8, is_running=True, placed=3600)
    world.gang("elsewhere", "others", is_running=True)
    world.gang("new")
    for _ in range(3):
        world.session()
    world.gang("other", "others", is_running=True)
    assert "t/new" not in world.session().seen
    pod = world.cache.tasks["t-runs-0"].pod
    world.cache.pod_changed(pod, None)
    assert world.decided("new") == "Inqueue", "nobody knows yet that what ran there is to be counted"


@dataclass(frozen=True)
class Case:
    """What a session says to a gang. `placed`: seconds since which a gang runs on 8 GPUs; `age`: of the amount spent."""

    spent: float
    want: str
    budget: dict[str, Any] = field(default_factory=dict)
    age: float = 0.0
    placed: int | None = None
    gang: dict[str, Any] = field(default_factory=dict)
    ports: dict[str, Any] = field(default_factory=dict)


SAFE = {"atEnd": "safe"}
CASES = {
    "not used up": Case(99.5, "Inqueue"),
    "used up by what runs since the amount was written": Case(99.5, "BudgetSpent: not now: ", age=300, placed=3600),
    "not used up by what has run for a moment": Case(99.5, "Inqueue", age=300, placed=60),
    "used up in what the gang does not ask for": Case(200, "Inqueue", gang={"resources": {"cpu": 1}}),
    "used up, which is a warning only": Case(200, "Inqueue", {"atEnd": "warn", "whenUnknown": "hold"}),
    "safe, and the gang fits": Case(89, "Inqueue", SAFE, gang={"estimate": "10h"}),
    "safe, and the gang does not fit any more": Case(
        91, f"BudgetSpent: not now: it may use 10.00 hours of {GPU} in 10h0m0s, and of", SAFE, gang={"estimate": "10h"}
    ),
    "safe, and the gang never fits": Case(
        0,
        f"BudgetSpent: never: it may use 200 hours of {GPU} in 200h0m0s; the budget of queue team",
        SAFE,
        gang={"estimate": "200h"},
    ),
    "safe, and nobody knows how long the gang runs": Case(
        0, "BudgetSpent: never: the budget of queue team for this month lets in only gangs that", SAFE
    ),
    "safe, and the gang fits if it runs as long as usual": Case(91, "Inqueue", SAFE, ports={"usual_seconds": lambda _: 5 * HOUR}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_spent_amount_and_at_end_of_a_budget_decide_whether_a_gang_is_admitted(case: Case) -> None:
    world = World()
    world.budget(case.spent, age=case.age, **case.budget)
    if case.placed is not None:
        world.gang("runs", gpus=8, is_running=True, placed=case.placed)
    world.gang("new", **case.gang)
    assert world.decided("new", **case.ports).startswith(case.want)


def test_usage_of_a_queue_counts_against_its_parents_budget_and_holds_no_gang_elsewhere() -> None:
    world = World()
    world.budget(99.5, age=300, queue="above")
    world.gang("runs", "team", gpus=8, is_running=True, placed=3600)
    world.gang("new")
    world.gang("free", "others")
    world.session()
    assert world.state("new").startswith("BudgetSpent: not now: the budget of queue above for this month")
    assert world.state("free") == "Inqueue"


def test_of_several_spent_budgets_the_reason_names_the_budget_that_ends_last() -> None:
    world = World()
    day, year = text_of(period="day"), text_of(period="year")
    world.queue("team", day, spent_of(day, 200))
    world.queue("above", year, spent_of(year, 200))
    world.gang("new")
    assert "queue above for this year" in world.decided("new")


def test_a_raised_budget_admits_a_waiting_gang() -> None:
    world = World()
    world.budget(200)
    world.gang("new")
    assert world.decided("new").startswith("BudgetSpent")
    world.session()
    assert "t/new" not in world.session().seen, "it costs nothing while nothing changes"
    raised = text_of("500h")
    world.queue("team", raised, spent_of(raised, 200))
    assert world.decided("new") == "Inqueue"


def test_a_spent_budget_admits_gangs_again_in_the_next_period() -> None:
    world = World()
    budget = text_of(period="day")
    world.queue("team", budget, spent_of(budget, 200))
    world.gang("new")
    assert world.decided("new").startswith("BudgetSpent")
    midnight = 16 * HOUR  # it is eight in the morning
    world.queue("team", budget, spent_of(budget, 300, age=60, now=objects.NOW + midnight))
    assert world.decided("new", midnight - 30).startswith("BudgetSpent")
    world.cache.queue_turned("team")
    assert world.decided("new", midnight + 1) == "Inqueue"


def test_a_spent_budget_without_period_names_no_start_date() -> None:
    world = World()
    world.budget(200, since=int(objects.NOW - HOUR), period="none")
    world.gang("new")
    text = world.decided("new")
    assert text.startswith("BudgetSpent: never: the budget of queue team is used up")
    assert text.endswith("it does not begin anew")


UNKNOWN = {
    "never written": ({}, "", "Inqueue"),
    "written long ago": ({}, spent_of(text_of(), 200, age=601), "Inqueue"),
    "of another period": ({}, spent_of(text_of(), 200, since=int(objects.NOW) - 86_400), "Inqueue"),
    "nonsense": ({}, "{", "Inqueue"),
    "never written, and the budget holds gangs then": (
        {"whenUnknown": "hold"},
        "",
        "BudgetSpent: not now: nobody knows how much of the budget of queue team is spent; it lets nobody in meanwhile",
    ),
}


@pytest.mark.parametrize(("fields", "spent", "want"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_gang_is_admitted_while_the_spent_amount_is_unknown_unless_the_budget_says_hold(
    fields: dict[str, str], spent: str, want: str
) -> None:
    world = World()
    world.queue("team", text_of(**fields), spent)
    world.gang("new")
    assert world.decided("new") == want


def test_an_invalid_budget_annotation_is_reported_and_ignored() -> None:
    world = World()
    world.queue("team", text_of(atEnd="kill"), "")
    world.gang("new")
    assert world.decided("new") == "Inqueue"
    want = "atEnd: 'kill': is unknown; it is one of warn, low, hold, safe; it is passed over"
    assert want in world.cache.problems["queue team"]


def test_at_end_low_admits_a_gang_only_when_no_other_gang_waits() -> None:
    world = World()
    world.budget(200, atEnd="low")
    world.queue("others", deserved={}, capability={GPU: 1})
    world.gang("runs", "others", gpus=1, is_running=True)
    world.gang("waits", "others")
    world.gang("new")
    text = world.decided("new")
    assert text.startswith("BudgetSpent: not now: the budget of queue team for this month is used up: 200 of 100 hours of")
    assert "so that it starts only where nobody else waits" in text
    waits = objects.pod_group(["waits", "others", 1, {"phase": "Pending", "minRes": {GPU: 1}}])
    world.cache.group_changed(waits, None)
    assert world.decided("new") == "Inqueue"


def test_two_gangs_under_at_end_low_are_admitted_together() -> None:
    world = World()
    world.budget(200, atEnd="low")
    world.gang("one")
    world.gang("two")
    assert (world.decided("one"), world.state("two")) == ("Inqueue", "Inqueue")


@pytest.mark.parametrize(("hours", "evicted"), [(200.0, 1), (50.0, 0)])
def test_at_end_low_makes_running_pods_reclaimable_once_the_budget_is_spent(hours: float, evicted: int) -> None:
    world = World(actions="allocate, reclaim")
    world.budget(hours, atEnd="low")
    world.queue("others", weight=9)
    world.gang("runs", "team", gpus=4, is_running=True, pre=False)
    for number in (1, 2, 3):
        world.cache.pod_changed(None, objects.pod([f"runs-{number}", "runs", "n", 1, "1Gi", {GPU: 4, "pre": False}]))
    world.cache.group_changed(None, objects.pod_group(["waits", "others", 1, {"phase": "Inqueue"}]))
    world.cache.pod_changed(None, objects.pod(["waits-0", "waits", "-", 1, "1Gi", {GPU: 4}]))
    world.session()
    assert len(world.evicted) == evicted


def test_at_end_safe_counts_admitted_and_running_gangs() -> None:
    world = World()
    world.budget(40, atEnd="safe")
    world.gang("runs", estimate="30h", is_running=True, placed=10 * 3600)  # 20 more
    world.gang("one", estimate="30h")
    world.gang("two", estimate="30h")
    world.session()
    assert sorted(state.split(":")[0] for state in (world.state("one"), world.state("two"))) == ["BudgetSpent", "Inqueue"]
    world.gang("three", estimate="11h")
    world.gang("four", estimate="9h")
    world.session()
    assert world.state("three").startswith("BudgetSpent: not now: it may use 11.00 hours")
    assert world.state("four") == "Inqueue"


@dataclass(frozen=True)
class Growth:
    """Hours of a safe budget, 4 of them spent, and gangs of 8 h by name with the pods that wait. `runs`: with one pod for 4 h."""

    limit: str
    want: list[str]
    gangs: dict[str, int]
    queue: str = "team"
    runs: bool = False
    estimate: str = "8h"
    says: str = ""


GROWTH = {
    "only its minimum fits": Growth("19h", ["one"], {"one": 9}, says="not now: one more pod may use 8.00 hours"),
    "some more pods fit": Growth("28h", ["one"] * 3, {"one": 9}),
    "gangs in several queues count in one above them": Growth("28h", ["one", "side", "side"], {"one": 9, "side": 9}, "above"),
    "what runs is counted to the end of its own estimate": Growth("24h", ["runs"] * 2, {"runs": 9}, runs=True),
    "a promise is kept from pods beyond the minimum": Growth("24h", ["runs"], {"runs": 9, "one": 0}, runs=True),
    "an estimate that was raised is asked about again": Growth(
        "29h", [], {"one": 1}, estimate="26h", says="not now: one more pod"
    ),
    "an estimate above the whole budget": Growth("29h", [], {"one": 1}, estimate="80h", says="never: one more pod may use 80.00"),
    "an estimate that was taken away": Growth("29h", [], {"one": 1}, estimate="", says="never: the budget of queue team for"),
}


@pytest.mark.parametrize("case", GROWTH.values(), ids=GROWTH)
def test_at_end_safe_places_no_pod_whose_hours_are_not_left(case: Growth) -> None:
    world = World()
    world.queue("side", parent="above")
    world.budget(4, queue=case.queue, limit=case.limit, atEnd="safe")
    if case.runs:
        world.gang("runs", estimate="8h", is_running=True, placed=4 * 3600)
    for name in [name for name in case.gangs if name != "runs"]:
        world.gang(name, "side" if name == "side" else "team", estimate="8h")
    world.session()
    for name, count in case.gangs.items():
        if case.estimate != "8h":
            world.gang(name, estimate=case.estimate, phase="Inqueue")
        world.pods(name, count)
    assert world.placed() == case.want
    assert all(case.says in world.told[f"t/{name}"] for name in case.gangs if case.says)
    assert world.placed(1) == [], "nor in a later session"


def test_a_queue_limit_or_closed_queue_is_reported_before_a_spent_budget() -> None:
    world = World(quota="capacity")
    budget = text_of()
    world.queue("team", budget, spent_of(budget, 200), capability={GPU: 2})
    world.gang("large", gpus=3)
    assert world.decided("large").startswith("AboveQueueLimit: ")
    world.queue("team", budget, spent_of(budget, 200), state="Closed")
    world.gang("new")
    assert world.decided("new").startswith("QueueClosed: ")


def test_a_gang_without_min_resources_is_held_by_a_spent_budget() -> None:
    world = World()
    world.budget(200)
    world.cache.group_changed(None, objects.pod_group(["new", "team", 1, {"phase": "Pending"}]))
    assert world.decided("new").startswith("BudgetSpent: ")


def test_a_spent_budget_holds_gangs_without_the_enqueue_action() -> None:
    world = World(actions="allocate")
    world.budget(200)
    world.gang("new")
    world.cache.pod_changed(None, objects.pod(["new-0", "new", "-", 1, "1Gi", {GPU: 1}]))
    assert world.decided("new").startswith("BudgetSpent: ")


def test_a_session_without_budgets_measures_none() -> None:
    world = World()
    world.gang("new")
    assert world.session().measures.budgets == {}


# -- what is told ----------------------------------------------------------------------------------------------------


class Events:
    def __init__(self) -> None:
        self.said: list[str] = []

    def event(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.said.append(f"{about.name} {kind} {reason} {message}")


class Reports:
    """The reports on one queue with a budget, as sessions bring them about."""

    def __init__(self) -> None:
        self.registry, self.events, self.world = CollectorRegistry(), Events(), World()
        self._reports = BudgetReports(self.registry, self.events, 600.0)  # type: ignore[arg-type]

    def take(self, after: float = 0.0) -> list[str]:
        standings: dict[str, BudgetStanding] = dict(self.world.session(after).measures.budgets)
        return self._reports.take(standings, self.world.cache.queues, objects.NOW + after)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"pyroclast_budget_{name}", {"queue": "team", **labels})


def test_the_spent_ratio_metric_grows_while_pods_run() -> None:
    reports = Reports()
    reports.world.budget(80)
    reports.world.gang("runs", gpus=8, is_running=True)
    assert reports.take() == []
    assert reports.sample("spent_ratio", resource=GPU) == pytest.approx(0.8)
    reports.take(450)
    assert reports.sample("spent_ratio", resource=GPU) == pytest.approx(0.81)
    assert reports.sample("unknown") == 0


def test_a_budget_unknown_event_is_sent_once_when_the_recorder_stops_writing() -> None:
    reports = Reports()
    budget = text_of()
    reports.world.queue("team", budget, spent_of(budget, 80))
    reports.take()
    assert reports.take(601) == ["team"], "its jobs are looked at again"
    reports.take(602)
    assert len(reports.events.said) == 1
    assert reports.events.said[0].startswith("team Warning BudgetUnknown the recorder has not written for 10m0s what is spent")
    assert reports.sample("unknown") == 1
    assert reports.sample("spent_ratio", resource=GPU) == pytest.approx(0.8), "the last that is known"
    reports.world.queue("team", budget, spent_of(budget, 81, now=objects.NOW + 660))
    assert reports.take(660) == ["team"]
    assert reports.sample("unknown") == 0


def test_a_new_budget_is_reported_unknown_only_after_600_seconds() -> None:
    reports = Reports()
    reports.world.queue("team", text_of())
    reports.take()
    reports.take(599)
    assert (reports.events.said, reports.sample("unknown")) == ([], 0)
    reports.take(601)
    assert (len(reports.events.said), reports.sample("unknown")) == (1, 1)


def test_a_queue_is_due_for_retry_when_its_low_budget_is_spent_or_a_new_period_begins() -> None:
    reports = Reports()
    budget = text_of(period="day", atEnd="low")
    reports.world.queue("team", budget, spent_of(budget, 99.9))
    reports.world.gang("runs", gpus=8, is_running=True)
    reports.take()
    assert reports.take(90) == ["team"]
    reports.world.queue("team", budget, spent_of(budget, 101, now=objects.NOW + 16 * HOUR - 1))
    reports.take(16 * HOUR - 1)
    assert reports.take(16 * HOUR) == ["team"]
