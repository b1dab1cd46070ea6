"""Random Jobs under random events: the controller in virtual time against the model of the specification."""

from __future__ import annotations

import asyncio
import copy
from random import Random
from typing import Any

import pytest

from pyroclast.api import keys
from pyroclast.api.types import JOBS, POD_GROUPS, Key
from pyroclast.kube.http.client import PatchKind
from tests.counts import examples
from tests.unit.ending import ended

from .cluster import NS, task
from .job_model import JobModel
from .memory_cluster import MemoryCluster, in_virtual_time
from .watched import QUIET, Watched, fails, is_evicted, is_ordered, restarts, succeeds

EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "*")
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
OVER = ("Aborted", "Completed", "Terminated", "Failed")
"""Phases in which every further event raises the version in the model, and nothing does with us."""
JOBS_TRIED = examples(160)


def policies(random: Random) -> list[dict[str, Any]]:
    causes = [{"exitCode": random.choice((1, 2))} if random.random() < 0.3 else {"event": random.choice(EVENTS)} for _ in "12"]
    return [{**cause, "action": random.choice(ACTIONS)} for cause in causes[: random.randint(0, 2)]]


def a_job(random: Random) -> dict[str, Any]:
    a = {"name": "a", "replicas": random.randint(1, 4), "policies": policies(random)}
    b = {"name": "b", "replicas": random.randint(1, 2), "policies": policies(random)}
    for each in (a, b):
        each["minAvailable"] = random.choice((each["replicas"], random.randint(0, each["replicas"])))
    if random.random() < 0.5:
        a["partitionPolicy"] = {"totalPartitions": (a["replicas"] + 1) // 2, "partitionSize": 2}
    if random.random() < 0.2:
        b |= {"dependsOn": {"name": ["a"]}, "minAvailable": 0}
    gang = max(1, a["minAvailable"] + b["minAvailable"] - random.choice((0, 0, 1)))
    success = {"minSuccess": random.randint(1, a["replicas"])} if random.random() < 0.2 else {}
    return {
        "tasks": [a, b],
        "minAvailable": gang,
        "maxRetry": random.randint(1, 3),
        "policies": policies(random),
        **success,
    }


def a_history(random: Random, spec: dict[str, Any]) -> list[tuple[Any, ...]]:
    pods = [f"{each['name']}-{index}" for each in spec["tasks"] for index in range(each["replicas"])]
    named = {policy.get("event") for holder in (spec, *spec["tasks"]) for policy in holder["policies"]}
    may_scale = named.isdisjoint(("TaskCompleted", "*"))  # a task that scaling completes has completed, with us
    deeds: list[tuple[Any, ...]] = []
    for _ in range(random.randint(1, 4)):
        pod = random.choice(pods)
        further = [("scale", max(random.randint(1, 4), spec["minAvailable"]))] if may_scale else []
        deed = random.choice(
            [
                ("fail", pod, random.choice((1, 2, 3))),
                ("succeed", pod),
                ("evict", pod),
                ("restart", pod, random.randint(1, 3)),
                ("command", random.choice(ACTIONS)),
                ("turn_unknown",),
                *further,
            ]
        )
        deeds.append(deed)
        if deed[0] == "fail" and random.random() < 0.4:
            deeds.append(("evict", pod))  # the pod that failed is deleted by somebody
    return deeds


def modelled(spec: dict[str, Any], history: list[tuple[Any, ...]], held: set[str]) -> dict[str, Any]:
    model = JobModel(copy.deepcopy(spec), held)
    model.settle()
    for deed, *arguments in history:
        if deed == "scale":
            arguments = [{"a": arguments[0]}]
        elif deed in ("fail", "succeed", "evict", "restart"):
            arguments[0] = f"j-{arguments[0]}"
        getattr(model, deed)(*arguments)
        model.settle()
    pods = {pod.name: (pod.phase, pod.version, pod.retries) for pod in model.pods.values()}
    return _outcome(model.trace, pods, model.retries, model.version, has_group=model.group is not None)


async def seen(
    cluster: MemoryCluster, spec: dict[str, Any], history: list[tuple[Any, ...]], held: set[str], *, looks_away: bool
) -> dict[str, Any]:
    """`looks_away`: the controller is down when the PodGroup turns Unknown."""
    watched = Watched(cluster)
    watched.held |= held
    nodes = asyncio.get_running_loop().create_task(watched.nodes())
    rows = [{**task(each["name"]), **each} for each in copy.deepcopy(spec["tasks"])]
    cluster.job("j", *rows, **{name: value for name, value in spec.items() if name != "tasks"})
    await asyncio.sleep(QUIET)
    for deed, *arguments in history:
        is_down = looks_away and deed == "turn_unknown"
        if is_down:
            await cluster.replica.kill()
        _do(watched, deed, *arguments)
        if is_down:
            await cluster.start_controller()
        await asyncio.sleep(QUIET)
    assert not nodes.done()
    await ended(nodes)
    pods = {}
    for pod in cluster.pods():
        notes = pod["metadata"]["annotations"]
        made = int(notes[keys.JOB_VERSION]), int(notes[keys.JOB_RETRY_COUNT])
        pods[pod["metadata"]["name"]] = (pod["status"]["phase"], *made)
    status, trace = cluster.status("j"), [phase.rstrip("*") for phase in watched.trace if phase]
    has_group = bool(cluster.server.of(POD_GROUPS))
    return _outcome(trace, pods, status.get("retryCount", 0), status.get("version", 0), has_group=has_group)


def _do(watched: Watched, deed: str, *arguments: Any) -> None:
    server, there = watched.cluster.server, {pod["metadata"]["name"]: pod for pod in watched.cluster.pods()}
    match deed, *arguments:
        case "command", action:
            is_ordered(action)(watched)
        case "turn_unknown", *_:
            for key in list(server.of(POD_GROUPS)):
                server.patch(POD_GROUPS, key, {"status": {"phase": "Unknown"}}, PatchKind.MERGE)
        case "scale", replicas:
            rows = copy.deepcopy(server.of(JOBS)[Key(NS, "j")]["spec"]["tasks"])
            rows[0] |= {"replicas": replicas, "minAvailable": min(rows[0]["minAvailable"], replicas)}
            server.patch(JOBS, Key(NS, "j"), {"spec": {"tasks": rows}}, PatchKind.MERGE)
        case "evict", pod:
            if f"j-{pod}" in there:
                is_evicted(pod)(watched)
        case _, pod, *more:
            if there.get(f"j-{pod}", {}).get("status", {}).get("phase") == "Running":
                {"fail": fails, "succeed": succeeds, "restart": restarts}[deed](pod, *more)(watched)


def _outcome(trace: list[str], pods: dict[str, Any], retries: int, version: int, *, has_group: bool) -> dict[str, Any]:
    if any(phase in OVER for phase in trace):
        version, pods = 0, {name: (phase, retry) for name, (phase, _, retry) in pods.items()}
    return {"trace": trace, "pods": pods, "retries": retries, "version": version, "has_group": has_group}


@pytest.mark.parametrize("seed", [*range(JOBS_TRIED), 523])
def test_job_controller_behaves_like_the_job_model_under_random_events(seed):
    random = Random(seed)
    spec = a_job(random)
    history = a_history(random, spec)
    held = {"j-a-0"} if random.random() < 0.1 else set()
    got = in_virtual_time(lambda cluster: seen(cluster, spec, history, held, looks_away=seed % 2 == 1))
    assert got == modelled(spec, history, held), (history, spec)
