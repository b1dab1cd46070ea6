"""Pods that got their place a moment ago stay, however much others want it, where a queue or the cluster says so."""

import pytest

from pyroclast.api import waiting_reasons as pending
from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios import objects
from tests.scenarios.taking import take_rests
from tests.unit.scheduler.deciding import committed, configured, evicted

TEXT = """
actions: "allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
configurations: [{{name: {action}, arguments: {arguments}}}]
"""
ANNOTATION = "pyroclast.dev/minimum-run-time"
AGE = 60  # seconds since the pods that run got their places


class World:
    """A full node; a more important job waits, of the same queue for preempt, of another for reclaim."""

    def __init__(self, action="preempt", arguments="{}", queue=None, parent=None, conditions=True):
        text = TEXT.format(action=action, arguments=arguments)
        self.configuration = configured(text)
        self.cache, self.memory = Cache(), {}
        self.cache.queue_changed(None, objects.queue(["root"]))
        self.cache.priority_changed(None, objects.priority_class(1000))
        self.cache.queue_changed(None, objects.queue(["above", {"annotations": {} if parent is None else {ANNOTATION: parent}}]))
        annotations = {} if queue is None else {ANNOTATION: queue}
        self.cache.queue_changed(None, objects.queue(["low", {"parent": "above", "annotations": annotations}]))
        self.cache.queue_changed(None, objects.queue(["high", {"weight": 9}]))
        self.cache.node_changed(None, objects.node(["n", 2, "8Gi"]))
        self.cache.group_changed(None, objects.pod_group(["runs", "low", 1, {"phase": "Running"}]))
        for name in ("runs-0", "runs-1"):
            placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": objects.timestamp(objects.NOW - AGE)}
            status = {"phase": "Running", "conditions": [placed] if conditions else []}
            self.cache.pod_changed(None, objects.edited(objects.pod([name, "runs", "n", 1, "1Gi"]), status=status))
        mine = "low" if action.endswith("preempt") else "high"
        self.cache.group_changed(None, objects.pod_group(["waits", mine, 1, {"phase": "Inqueue", "class": 1000}]))
        self.cache.pod_changed(None, objects.pod(["waits-0", "waits", "-", 1, "1Gi", {"prio": 1000}]))

    def session(self, after=0):
        """Whom it evicts, and why the job waits."""
        outcome, commits = committed(self.cache, self.configuration, now=objects.NOW + after, memory=self.memory)
        for key, status in outcome.statuses.items():
            self.cache.groups.believe(key, status)
        take_rests(self.cache, outcome)
        return evicted(commits), next((each.message for each in self.cache.groups.current("t/waits").status.conditions), "")


ACTIONS = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
SETTINGS = {
    "nothing is set": ({}, True),
    "the cluster's is over": ({"arguments": "{minimumRunTime: 50s}"}, True),
    "the cluster's is not over": ({"arguments": "{minimumRunTime: 10m}"}, False),
    "the queue's is over": ({"queue": "50s"}, True),
    "the queue's is not over": ({"queue": "10m"}, False),
    "that of a queue above is not over": ({"parent": "10m"}, False),
    "the queue overrules the one above": ({"parent": "10m", "queue": "50s"}, True),
    "the queue overrules the cluster": ({"arguments": "{minimumRunTime: 10m}", "queue": "0s"}, True),
    "what is no duration says nothing": ({"queue": "soon", "parent": "10m"}, False),
    "a pod that does not say since when it has its place": ({"queue": "50s", "conditions": False}, False),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("settings", "want"), SETTINGS.values(), ids=SETTINGS)
def test_pods_are_not_evicted_before_their_minimum_run_time(action, settings, want):
    evicted, _ = World(action, **settings).session()
    assert bool(evicted) is want


@pytest.mark.parametrize("action", ACTIONS)
def test_a_job_blocked_by_the_minimum_run_time_reports_when_it_ends_and_evicts_then(action):
    world = World(action, queue="10m")
    evicted, message = world.session()
    assert not evicted
    assert pending.reason_of(message)
    when = objects.timestamp(objects.NOW - AGE + 600)
    want = f"2 pods that could make room have not run for the minimum of 10m0s of queue low yet; the first may go at {when}"
    assert message.endswith(want), message
    for after in (300, 541):
        world.cache.recheck()
        evicted, _ = world.session(after)
    assert len(evicted) == 1


def test_topology_aware_preemption_respects_the_minimum_run_time():
    world = World(arguments="{enableTopologyAwarePreemption: true, minimumRunTime: 10m}")
    assert world.session()[0] == []
    world.cache.recheck()
    assert len(world.session(600)[0]) == 1


@pytest.mark.parametrize("text", ["soon", "-5m", ""])
def test_an_invalid_minimum_run_time_annotation_is_reported_as_a_problem_of_the_queue(text):
    world = World(queue=text)
    assert f"annotation {ANNOTATION}: {text!r} is not a duration of 0s or more" in world.cache.problems["queue low"]
