"""One trace per Job, over a restart of the Job and the death of every service."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, running, services_of, wait_until
from tests.e2e.collector import Collector, collecting
from tests.e2e.test_first_light import job, phase_of

NAMESPACE = "traced"
STEPS = ["job.prepare", "queue.wait", "gang.wait", "pods.start", "job.run", "job.end"]


@pytest.mark.timeout(400)
def test_a_job_is_one_trace_though_it_restarts_and_all_services_die(
    control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("PYROCLAST_OTEL_ENDPOINT", collector.url)
        with running(control_plane, tmp_path, nodes=2) as cluster:
            trace = run_through(cluster)
            wait_until(lambda: "job.end" in {span.name for span in collector.of_trace(trace)}, "the trace to end")
            check(collector, trace)


def run_through(cluster: Cluster) -> str:
    """A Job that restarts, outlives all services, and completes; its trace."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    manifest = job("train", command=["sleep", "900"], replicas=2, policies=policies)
    cluster.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=manifest)
    wait_until(lambda: phase_of(cluster, NAMESPACE, "train") == "Running", "the Job to run")
    annotate(cluster, "train-worker-0", "fail-after=0s")
    wait_until(lambda: has_restarted(cluster), "the Job to run again")
    before = dict(cluster.pids)
    for service in services_of(cluster):
        cluster.kill(service)
    assert all(cluster.pids[service] != before[service] for service in services_of(cluster))
    for pod in ("train-worker-0", "train-worker-1"):
        annotate(cluster, pod, "run-for=1s")
    wait_until(lambda: phase_of(cluster, NAMESPACE, "train") == "Completed", "the Job to complete", seconds=120)
    annotations = cluster.get("vcjob", "train", "-n", NAMESPACE)["metadata"]["annotations"]
    return str(annotations["pyroclast.dev/traceparent"]).split("-")[1]


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
    assert names == {**once, "gang.decide": 2, "gang.bind": 2}
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
