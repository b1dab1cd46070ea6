"""Whether a Job that does not exist would start now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pyroclast.views.fitting import Cluster, fits, gang_of
from pyroclast_cli import programs
from tests.unit.cli.golden.server import serving


def node(name: str, cpu: str = "4", *, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


def pod_spec(cpu: str = "1", **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **more}


def job(cpu: str = "1", replicas: int = 1, *, queue: str = "q", least: int | None = None, **spec: Any) -> dict[str, Any]:
    task = {"name": "a", "replicas": replicas, "template": {"spec": pod_spec(cpu, **spec)}}
    return {"metadata": {"name": "j"}, "spec": {"queue": queue, "tasks": [task], **({"minAvailable": least} if least else {})}}


def queue(name: str, parent: str = "root", allocated: str = "0", **capability: str) -> dict[str, Any]:
    spec = {"parent": parent, "capability": capability}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocated": {"cpu": allocated}}}


def running(cpu: str, where: str) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {**pod_spec(cpu), "nodeName": where}, "status": {"phase": "Running"}}


def let_in(cpu: str) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "spec": {"queue": "q", "minResources": {"cpu": cpu}}, "status": {"phase": "Inqueue"}}


@dataclass(frozen=True, slots=True)
class Case:
    job: dict[str, Any]
    want: str | None
    queues: list[dict[str, Any]] = field(default_factory=lambda: [queue("q")])
    nodes: list[dict[str, Any]] = field(default_factory=lambda: [node("n1"), node("n2")])
    pods: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    absence: str = ""


TAINT = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
TOLERATES = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
AFFINITY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    }
}
CASES = {
    "it fits": Case(job(), None),
    "a gang over two nodes": Case(job("3", 2), None),
    "its scheduler is not there": Case(job(), "NoScheduler", absence="nobody"),
    "above the capability": Case(job("3"), "AboveQueueLimit", queues=[queue("q", cpu="2")]),
    "above the capability of a parent": Case(job("3"), "AboveQueueLimit", queues=[queue("q", "p"), queue("p", cpu="2")]),
    "above the cluster": Case(job("1", 9), "AboveCluster"),
    "a device that nobody has": Case(
        {
            "metadata": {},
            "spec": {
                "queue": "q",
                "tasks": [
                    {"replicas": 1, "template": {"spec": {"containers": [{"resources": {"requests": {"example.com/x": "1"}}}]}}}
                ],
            },
        },
        "AboveCluster",
    ),
    "the queue is full": Case(job("2"), "QueueFull", queues=[queue("q", allocated="3", cpu="4")]),
    "promised to others": Case(job("2"), "QueueFull", queues=[queue("q", cpu="4")], groups=[let_in("3")]),
    "the cluster is promised": Case(job("2"), "ClusterFull", groups=[let_in("8")]),
    "no node": Case(job("0"), "NoNodeReady", nodes=[node("n1", ready="False")]),
    "a taint": Case(job(), "NoNodeAllowed", nodes=[node("n1", **TAINT)]),
    "a taint that it tolerates": Case(job("1", **TOLERATES), None, nodes=[node("n1", **TAINT)]),
    "a cordon": Case(job(), "NoNodeAllowed", nodes=[node("n1", unschedulable=True)]),
    "a selector": Case(job("1", nodeSelector={"zone": "a"}), "NoNodeAllowed"),
    "affinity": Case(job("1", **AFFINITY), "NoNodeAllowed"),
    "affinity that holds": Case(job("1", **AFFINITY), None, nodes=[node("n1", labels={"zone": "a"})]),
    "a pod that is too big": Case(job("5"), "NoNodeBigEnough"),
    "too few nodes": Case(job("3", 2), "TooFewNodes", nodes=[node("n1"), node("n2", "2"), node("n3", "2")]),
    "full nodes": Case(job("3"), "NodesFull", pods=[running("2", "n1"), running("2", "n2")]),
    "only what must start counts": Case(job("3", 9, least=1), None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_fits_reports_the_first_reason_a_job_cannot_start(case: Case) -> None:
    cluster = Cluster({each["metadata"]["name"]: each for each in case.queues}, case.nodes, case.pods, case.groups)
    finding = fits(case.job, cluster, case.absence)
    assert (finding.code, finding.is_final) == (case.want, finding.sentence.startswith("never"))


def test_gang_has_min_available_pods_or_all_replicas_by_default() -> None:
    assert len(gang_of(job(replicas=4))) == 4
    assert len(gang_of(job(replicas=4, least=2))) == 2


MANIFEST = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: ask}
spec:
  queue: research
  tasks:
  - name: main
    replicas: 2
    template: {spec: {containers: [{name: c, image: busybox, resources: {requests: {cpu: CPU}}}]}}
"""


@pytest.mark.parametrize(
    ("text", "flags", "status", "line"),
    [
        (MANIFEST.replace("CPU", "1"), [], 0, "default/ask would start now in queue research: 2 pods with 2 cpu fit now"),
        (MANIFEST.replace("CPU", "3"), [], 0, "default/ask would wait in queue research: QueueFull, not now"),
        (MANIFEST.replace("CPU", "30"), [], 3, "default/ask would wait in queue research: AboveQueueLimit, never"),
        (MANIFEST.replace("CPU", "1"), ["-q", "nightly"], 1, "it would be refused: can only submit job to queue with state"),
        (MANIFEST.replace("CPU", "1"), ["-q", "nothing"], 1, "it would be refused: unable to find job queue"),
        (MANIFEST.replace("CPU", "1").replace("replicas", "replikas"), [], 1, "it would be refused: "),
        ("kind: Pod", [], 1, "there must be one Job of batch.volcano.sh/v1alpha1, and there are 0"),
        ("{", [], 1, "is not YAML"),
    ],
)
def test_vcctl_fits_prints_whether_a_manifest_would_start_wait_or_be_refused(text, flags, status, line, tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with serving() as url:
        assert programs.vcctl(["fits", "-f", str(file), *flags, "--master", url]) == status
    printed = capsys.readouterr()
    assert line in (printed.err if status == 1 else printed.out)
    assert len(printed.err.splitlines()) == (status == 1)
