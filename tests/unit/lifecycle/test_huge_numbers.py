"""Numbers that users write cost nothing by themselves: work and memory grow with the pods that exist."""

import tracemalloc

import pytest

from pyroclast.api.enums import JobPhase, PodGroupPhase, PodPhase
from pyroclast.lifecycle.effects import CreatePods, Slot
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.plan import MOST_CREATED, plan
from pyroclast.lifecycle.job import job_events
from pyroclast.lifecycle.job.decide import decide

from .builders import CREATED, NOW, facts, job, pod, pods_of, task

HUGE = 2**31 - 1
MOST_BYTES = 3_000_000

JOBS = {
    "replicas": ([task("a", HUGE, minAvailable=1)], {"minAvailable": 1}),
    "replicas of the gang": ([task("a", HUGE)], {}),
    "minAvailable alone": ([task("a", 2, minAvailable=HUGE)], {"minAvailable": HUGE}),
    "several tasks": ([task("a", 1), task("b", HUGE, minAvailable=0), task("c", HUGE, minAvailable=0)], {}),
    "a dependency": ([task("a", HUGE), task("b", HUGE, dependsOn={"name": ["a"]})], {}),
    "partitions": (
        [task("a", HUGE, partitionPolicy={"totalPartitions": HUGE, "partitionSize": 1, "minPartitions": HUGE})],
        {},
    ),
    "an array": ([task("a", 0, minAvailable=1, array={"indexes": "0-999999999:2", "cancelled": "0-9,100-999999999"})], {}),
    "an array with a limit": ([task("a", 0, minAvailable=1, array={"indexes": "0-999999999", "maxParallel": 2**31 - 1})], {}),
    "independent pods": ([task("a", HUGE, independentPods=True)], {"maxFailedPods": HUGE}),
    "retries": ([task("a", 1, maxRetry=HUGE)], {"maxRetry": HUGE, "minSuccess": HUGE, "ttlSecondsAfterFinished": HUGE}),
}


@pytest.mark.parametrize("phase", JobPhase)
@pytest.mark.parametrize(("tasks", "spec"), JOBS.values(), ids=JOBS.keys())
def test_decision_about_a_job_with_huge_numbers_takes_little_memory(tasks, spec, phase):
    owner = members.named(job(*tasks, phase=phase, **spec))
    pods = [pod(owner, f"a-{index}", state) for index, state in enumerate(PodPhase)]
    tracemalloc.start()
    for there in ((), pods):
        for group in (None, PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING):
            for idle in (False, True):
                decision = decide(facts(owner, *there, group_phase=group), idle=idle)
                assert sum(len(effect.slots) for effect in decision.effects if isinstance(effect, CreatePods)) <= MOST_CREATED
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MOST_BYTES


def test_plan_names_the_needed_pods_of_each_task_first_and_counts_the_others_as_elastic():
    owner = job(task("a", 4, minAvailable=1), task("b", 3, minAvailable=2))
    found = plan(owner, pods_of(owner, pod(owner, "b-0")))
    assert found.missing == tuple(Slot(*place) for place in [("a", 0), ("b", 1), ("a", 1), ("a", 2), ("a", 3), ("b", 2)])
    assert found.elastic == 4


def test_status_that_names_two_billion_pods_is_examined_only_in_part():
    tracked = {"at": CREATED, "indexes": {"a": f"0-{HUGE}"}}
    owner = job(task("a", HUGE), phase=JobPhase.RUNNING, status={"trackedPods": tracked})
    found = list(job_events.missed(owner, pods_of(owner, pod(owner, "a-1")), NOW))
    assert len(found) == job_events.MOST_OCCURRENCES
    assert [occurrence.pod for occurrence in found[:2]] == ["j-a-0", "j-a-2"]
