"""A cluster that is worth looking at: two teams compete for GPUs, nodes are kept for a large Job, a flow has failed.

The pictures of the documentation are taken of it. `begin` makes what is there from the start, `crowd` what competes for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.reserving import NAMED, RESERVATION
from tests.pod_metrics import POD_METRICS_CRD

__all__ = ["CONFIGURATION", "FLAGS", "NODES", "RACK", "SETTINGS", "Showcase"]

NODES: Final = 24
RACK: Final = 4
"""Nodes of one rack; two racks make a row."""

GPU: Final = "nvidia.com/gpu"
FLAGS: Final = ("--node-resource", f"{GPU}=8")
SETTINGS: Final = {"PYROCLAST_CPU": "64", "PYROCLAST_MEMORY": "512Gi", "PYROCLAST_METRICS_PERIOD": "500ms"}
"""What a node of this size has, and how often the recorder asks what pods use."""

CONFIGURATION: Final = """
actions: "enqueue, elect, allocate, backfill, reserve"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: reservation, arguments: {locksPerCycle: 2}}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}, {name: binpack}]
"""
SIZES: Final = (8, 6, 5, 7, 4)
"""GPUs of Jobs of one pod, no two of which fit on a node."""

USE: Final = {"cpu": "5200m", "memory": "19Gi"}
"""What each measured pod uses of 24 processors and 128 GiB."""


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A queue; GPUs alone are shared, since nobody runs out of anything else."""
    gpus = {key: {GPU: str(value)} for key, value in spec.items() if key in {"deserved", "capability"}}
    guarantee = {"guarantee": {"resource": {GPU: str(spec["guarantee"])}}} if "guarantee" in spec else {}
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**body, "spec": {"weight": 1, "reclaimable": False, **gpus, **guarantee}}


def gang(name: str, team: str, gpus: int, replicas: int, seconds: int = 3600, **spec: Any) -> dict[str, Any]:
    """A Job of pods with so many GPUs each, and processors and memory as fit them."""
    command = spec.pop("command", ["sleep", str(seconds)])
    annotations = spec.pop("annotations", {})
    body: dict[str, Any] = json.loads(job(name, command=command, replicas=replicas, queue=team, **spec))
    (container,) = body["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["resources"]["requests"] = {"cpu": str(gpus * 6), "memory": f"{gpus * 32}Gi", GPU: str(gpus)}
    container["resources"]["limits"] = {GPU: str(gpus)}
    body["metadata"]["annotations"] = annotations
    return body


def flow() -> list[dict[str, Any]]:
    """Data is fetched and prepared, three models are trained, one of which fails, so that nothing is compared and published."""
    commands = {"fetch": "sleep 3", "prepare": "sleep 5", "train-small": "sleep 6", "train-medium": "sleep 2; exit 1"}
    commands |= {"train-large": "sleep 3600", "report": "sleep 2", "compare": "sleep 1", "publish": "sleep 1"}
    trained = ["train-small", "train-medium", "train-large"]
    wants = {"prepare": ["fetch"], **{name: ["prepare"] for name in (*trained, "report")}, "compare": trained}
    wants |= {"publish": ["compare"]}
    templates = []
    for name, command in commands.items():
        body = json.loads(job(name, command=["sh", "-c", command]))
        (container,) = body["spec"]["tasks"][0]["template"]["spec"]["containers"]
        container["resources"]["requests"] = {"cpu": "2", "memory": "4Gi"}
        templates.append(body | {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"})
    entries = [{"name": name, **({"dependsOn": {"targets": wants[name]}} if name in wants else {})} for name in commands]
    spec = {"flows": entries, "jobRetainPolicy": "retain"}
    kind = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow"}
    return [*templates, {**kind, "metadata": {"name": "nightly"}, "spec": spec}]


class Showcase:
    """The scenario in a cluster of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, namespace: str, user: str, *bodies: dict[str, Any]) -> None:
        """Have a user create objects."""
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
        impersonated = (f"--as={user}", "--as-group=system:masters")
        self._cluster.kubectl(*impersonated, "create", "-n", namespace, "-f", "-", stdin=listed)

    def uid(self, kind: str, name: str, namespace: str) -> str:
        """The uid of an object."""
        return str(self._cluster.get(kind, name, "-n", namespace)["metadata"]["uid"])

    def until(self, namespace: str, phase: str, *names: str) -> None:
        """Wait until these Jobs are in a phase."""

        def are_there() -> bool:
            found = self._cluster.get("vcjob", "-n", namespace)["items"]
            phases = {each["metadata"]["name"]: each.get("status", {}).get("state", {}).get("phase") for each in found}
            return all(phases.get(name) == phase for name in names)

        wait_until(are_there, f"{', '.join(names)} to be {phase}", seconds=120)

    def begin(self) -> None:
        """Racks, a node that takes no pods, queues, and metrics of pods."""
        nodes = sorted((each["metadata"]["name"] for each in self._cluster.get("nodes")["items"]), key=_number)
        self._cluster.kubectl("cordon", nodes[-1])
        rows: dict[int, list[str]] = {}
        for rack in range(NODES // RACK):
            rows.setdefault(rack // 2, []).append(f"rack-{rack}")
            self._hyper_node(f"rack-{rack}", 1, "Node", nodes[rack * RACK : (rack + 1) * RACK])
        for row, racks in rows.items():
            self._hyper_node(f"row-{row}", 2, "HyperNode", racks)
        shares = {
            "research": {"deserved": 64, "capability": 128},
            "production": {"deserved": 96, "capability": 160, "guarantee": 32},
        }
        shares["batch"] = {"deserved": 32}
        for name, share in shares.items():
            self._cluster.create(json.dumps(queue(name, **share)))
        self._cluster.create(json.dumps(POD_METRICS_CRD))
        self._cluster.kill("recorder")  # which would ask whether there are metrics only after minutes
        for namespace in ("vision", "speech", "serving"):
            self._cluster.make_namespace(namespace)

    def past_runs(self) -> str:
        """A Job that runs three times, is measured, and is deleted each time; the uid of the last run."""
        uid = ""
        for seconds, code in ((6, 0), (3, 1), (12, 0)):
            command = ["sh", "-c", f"sleep {seconds}; exit {code}"]
            self.create("vision", "ann", gang("finetune", "research", 4, 4, command=command))
            self.until("vision", "Running", "finetune")
            self._measure("vision", "finetune")
            uid = self.uid("vcjob", "finetune", "vision")
            self.until("vision", "Failed" if code else "Completed", "finetune")
            self._cluster.kubectl("delete", "vcjob", "finetune", "-n", "vision", "--wait=true")
            self._cluster.kubectl("delete", "pods.metrics.k8s.io", "--all", "-n", "vision")
        return uid

    def crowd(self) -> None:
        """Fill the cluster, so that research borrows, nodes are kept for `retrain`, and others wait for other reasons."""
        self.create("vision", "ann", gang("sweep-1", "research", 8, 4, runningEstimate="50m"))
        self.create("speech", "ben", gang("sweep-2", "research", 8, 4, runningEstimate="90m"))
        self.create("serving", "carla", gang("serve", "production", 4, 6, runningEstimate="6h"))
        self.create("serving", "dan", gang("ranking", "production", 8, 5, runningEstimate="2h"))
        self.until("vision", "Running", "sweep-1")
        self.until("speech", "Running", "sweep-2")
        self.until("serving", "Running", "serve", "ranking")
        self.create("vision", "ann", gang("distill", "research", 4, 4, runningEstimate="40m"))
        self.until("vision", "Running", "distill")
        batch = [gang(f"render-{n}", "batch", gpus, 1, runningEstimate=f"{20 + 7 * n}m") for n, gpus in enumerate(SIZES)]
        self.create("vision", "eve", *batch)
        self.until("vision", "Running", *(f"render-{n}" for n in range(len(SIZES))))
        self.create("serving", "carla", gang("retrain", "production", 8, 8, runningEstimate="3h", annotations=NAMED))
        self._until_group("serving", "retrain", lambda found: "promise" in found, "a promise")
        self.create("vision", "ann", *flow())
        self.create("speech", "ben", gang("train-llm", "research", 8, 8, runningEstimate="8h"))
        self.create("vision", "ann", gang("evaluate", "research", 8, 6, runningEstimate="30m"))
        self.create("vision", "eve", gang("one-huge-pod", "batch", 16, 1), gang("render-5", "batch", 8, 1, runningEstimate="4h"))

    def _until_group(self, namespace: str, name: str, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Wait for what the scheduler writes about the reservation of a Job."""
        group = f"{name}-{self.uid('vcjob', name, namespace)}"

        def is_so() -> bool:
            found = self._cluster.get("podgroups.scheduling.volcano.sh", group, "-n", namespace)
            return holds(json.loads(found["metadata"].get("annotations", {}).get(RESERVATION, "{}")))

        wait_until(is_so, f"{what} for {name}", seconds=120)

    def _hyper_node(self, name: str, tier: int, kind: str, members: list[str]) -> None:
        listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
        body = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
        self._cluster.create(json.dumps({**body, "spec": {"tier": tier, "members": listed}}))

    def _measure(self, namespace: str, name: str) -> None:
        """Say of the pods of a Job what they use, as metrics-server does."""
        found = self._cluster.get("pods", "-n", namespace, "-l", f"volcano.sh/job-name={name}")["items"]
        for pod in found:
            metadata = {"name": pod["metadata"]["name"]}
            body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": metadata}
            self._cluster.create(json.dumps({**body, "containers": [{"name": "main", "usage": USE}]}), namespace)


def _number(node: str) -> int:
    return int(node.rpartition("-")[2])
