"""One trace per Job, and per flow with its Jobs, over a restart of the Job and the death of every service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.flows.test_flows import Flows, entry, flow, template
from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.observability.test_history import pods_recorded
from tests.e2e.support.cluster import Cluster, running, services_of, wait_until
from tests.e2e.support.collector import Collector, collecting

NAMESPACE = "traced"
STEPS = ["job.prepare", "queue.wait", "gang.wait", "pods.start", "job.run", "job.end"]
OF_PROCESSES = {"admission.mutate", "admission.validate"}
"""Spans that nobody works out again: a program that is killed takes those along that it has not sent yet."""


@pytest.fixture
def traced(control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cluster, Collector]]:
    """A control plane whose services send their spans to a collector."""
    with collecting() as collector:
        monkeypatch.setenv("PYROCLAST_OTEL_ENDPOINT", collector.url)
        with running(control_plane, tmp_path, nodes=2) as cluster:
            yield cluster, collector


@pytest.mark.timeout(400)
def test_job_has_one_complete_trace_over_a_restart_and_killed_services(traced: tuple[Cluster, Collector]) -> None:
    cluster, collector = traced
    trace = run_through(cluster)
    wait_until(lambda: "job.end" in {span.name for span in collector.of_trace(trace)}, "the trace to end")
    check(collector, trace)


@pytest.mark.timeout(400)
def test_jobflow_span_is_the_parent_of_its_job_spans_although_all_services_are_killed(traced: tuple[Cluster, Collector]) -> None:
    cluster, collector = traced
    trace = run_flow(cluster, collector)
    wait_until(lambda: "flow.run" in {span.name for span in collector.of_trace(trace)}, "the trace of the flow to end")
    ends = {span.attributes["name"]: span for span in collector.of_trace(trace) if span.name == "job.end"}
    check_flow(collector, trace)
    assert set(ends) == {"etl-fetch", "etl-train"}


def run_flow(cluster: Cluster, collector: Collector) -> str:
    """A flow of two Jobs, in whose first all services die; its trace."""
    cluster.make_namespace(NAMESPACE)
    flows = Flows(cluster, NAMESPACE)
    templates = [template(name, "sleep 900") for name in ("fetch", "train")]
    flows.create(*templates, flow(entry("fetch"), entry("train", "fetch"), name="etl"))
    wait_until(lambda: runs(cluster, "etl-fetch"), "the first Job to run")
    trace = trace_of(cluster, "etl-fetch")
    wait_until(lambda: {span.name for span in collector.of_trace(trace)} >= OF_PROCESSES, "what ends with a process to be sent")
    for service in services_of(cluster):
        cluster.kill(service)
    for name in ("fetch", "train"):
        wait_until(lambda job=f"etl-{name}": runs(cluster, job), f"{name} to run", seconds=120)
        annotate(cluster, f"etl-{name}-t-0", "run-for=1s")
    flows.reaches("Succeed", "etl")
    assert trace_of(cluster, "etl-train") == trace
    return trace


def trace_of(cluster: Cluster, name: str) -> str:
    """The trace of a Job."""
    annotations = cluster.get("vcjob", name, "-n", NAMESPACE)["metadata"]["annotations"]
    return str(annotations["pyroclast.dev/traceparent"]).split("-")[1]


def runs(cluster: Cluster, name: str) -> bool:
    jobs = cluster.get("vcjob", "-n", NAMESPACE)["items"]
    return any(
        each["metadata"]["name"] == name and each.get("status", {}).get("state", {}).get("phase") == "Running" for each in jobs
    )


def check_flow(collector: Collector, trace: str) -> None:
    """The spans of both Jobs, each once, inside of the one span of the flow."""
    spans = collector.of_trace(trace)
    (whole,) = [span for span in spans if span.name == "flow.run"]
    assert (whole.parent, whole.attributes["name"], whole.attributes["state"]) == ("", "etl", "Succeed")
    inner = [span for span in spans if span is not whole]
    assert {span.parent for span in inner} == {whole.id}
    assert len({span.id for span in spans}) == len(spans)
    names = Counter(span.name for span in inner)
    assert {name: names[name] for name in STEPS} == dict.fromkeys(STEPS, 2)
    assert {names[name] for name in {*OF_PROCESSES, "gang.bind"}} == {2}
    told = [span for span in inner if not span.name.startswith("admission.")]
    assert all(whole.begin <= span.begin and span.end <= whole.end for span in told)


def run_through(cluster: Cluster) -> str:
    """A Job that restarts, outlives all services, and completes; its trace."""
    cluster.make_namespace(NAMESPACE)
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    manifest = job("train", command=["sleep", "900"], replicas=2, policies=policies)
    cluster.create(manifest, NAMESPACE)
    wait_until(lambda: phase_of(cluster, NAMESPACE, "train") == "Running", "the Job to run")
    wait_until(lambda: pods_recorded(cluster, NAMESPACE) == 2, "the recorder to have seen the pods, which the restart deletes")
    wait_until(lambda: decision_on(cluster), "the decision of the scheduler to be written, which the next one replaces")
    first = decision_on(cluster)
    annotate(cluster, "train-worker-0", "fail-after=0s")
    wait_until(lambda: has_restarted(cluster), "the Job to run again")
    wait_until(lambda: decision_on(cluster) not in {"", first}, "the next decision to be written, before the scheduler is killed")
    before = dict(cluster.pids)
    for service in services_of(cluster):
        cluster.kill(service)
    assert all(cluster.pids[service] != before[service] for service in services_of(cluster))
    for pod in ("train-worker-0", "train-worker-1"):
        annotate(cluster, pod, "run-for=1s")
    wait_until(lambda: phase_of(cluster, NAMESPACE, "train") == "Completed", "the Job to complete", seconds=120)
    return trace_of(cluster, "train")


def decision_on(cluster: Cluster) -> str:
    """What the only PodGroup says of the session that placed it last; empty while it says nothing."""
    (group,) = cluster.get("podgroups.scheduling.volcano.sh", "-n", NAMESPACE)["items"]
    return next((each["message"] for each in group["status"].get("conditions", ()) if each["type"] == "Scheduled"), "")


def annotate(cluster: Cluster, pod: str, text: str) -> None:
    cluster.kubectl("annotate", "pod", pod, "-n", NAMESPACE, f"nodes.pyroclast.dev/{text}")


def has_restarted(cluster: Cluster) -> bool:
    status = cluster.get("vcjob", "train", "-n", NAMESPACE)["status"]
    return status.get("retryCount") == 1 and status["state"]["phase"] == "Running"


def check(collector: Collector, trace: str) -> None:
    """Each span once, of this trace alone, and no hole between creation and end."""
    spans = collector.of_trace(trace)
    names = Counter(span.name for span in spans)
    once = dict.fromkeys(["admission.mutate", "admission.validate", "policy.action", *STEPS], 1)
    assert names.pop("gang.decide") >= 2  # a session that must bind a pod again decides once more
    assert names == {**once, "gang.bind": 2}
    assert len({span.id for span in spans}) == len(spans)
    steps = {span.name: span for span in spans}
    assert all(later.begin - earlier.end <= 1 for earlier, later in pairwise(steps[name] for name in STEPS))
    assert abs(steps["job.prepare"].begin - steps["admission.mutate"].end) <= 1
    (restart,) = [span for span in spans if span.name == "policy.action"]
    assert restart.attributes["action"] == "RestartJob"
    bound = [span for span in spans if span.name == "gang.bind"]
    assert [(span.events, span.attributes["pods"]) for span in bound] == [(2, 2), (2, 2)]
    decided = [span for span in spans if span.name == "gang.decide"]
    assert all(span.attributes["session"] and span.attributes["nodes_tried"] == 2 for span in decided)
