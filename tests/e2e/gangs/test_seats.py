"""Gangs that are placed before their pods exist: one write for each pod, and whole gangs whoever is killed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pyroclast.api import keys
from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.support.cluster import Cluster, running, wait_until

NODES = 8
ROOM = 8000
"""Thousandths of a CPU of each simulated node."""
GROUPS = "podgroups.scheduling.volcano.sh"
SEEN = ("publishing", "placing", "creating", "observing")


@pytest.fixture(scope="module")
def own(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with the switch on, whatever the other tests have."""
    with running(control_plane, tmp_path_factory.mktemp("seats"), nodes=NODES, flags=("--place-before-pods",)) as cluster:
        yield cluster


@pytest.fixture
def space(own: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"seats-{abs(hash(request.node.name)) % 10**8}"
    own.make_namespace(name)
    yield name
    own.kubectl("delete", "vcjob", "--all", "-n", name)
    own.kubectl("delete", "pods", "--all", "-n", name, "--wait=false")
    wait_until(lambda: not own.get("pods", "-n", name)["items"], "the room of the pods to be free for the next test", seconds=60)
    own.kubectl("delete", "namespace", name, "--wait=false")


def gang(name: str, size: int, cpu: str = "500m", **spec: Any) -> str:
    made = json.loads(job(name, command=["sleep", "600"], replicas=size, **spec))
    made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return json.dumps(made)


def create(own: Cluster, space: str, manifest: str) -> None:
    own.create(manifest, space)


def runs(own: Cluster, space: str, name: str, size: int, *, seconds: float = 90.0) -> None:
    status = ("vcjob", name, "-n", space)
    wait_until(lambda: own.get(*status).get("status", {}).get("running") == size, f"{name} to run", seconds=seconds)


def pods(own: Cluster, space: str) -> list[dict[str, Any]]:
    return [pod for pod in own.get("pods", "-n", space)["items"] if "deletionTimestamp" not in pod["metadata"]]


def annotation(own: Cluster, space: str, key: str) -> dict[str, Any]:
    found = own.get(GROUPS, "-n", space)["items"]
    return dict(json.loads(found[0]["metadata"].get("annotations", {}).get(key, "{}"))) if found else {}


def made(own: Cluster, space: str) -> Counter[str]:
    """Successful creations of pods and of bindings in the namespace."""
    found: Counter[str] = Counter()
    for event in own.audit.events():
        reference = event.get("objectRef") or {}
        is_pod = reference.get("resource") == "pods" and reference.get("namespace") == space
        if (
            is_pod
            and event["verb"] == "create"
            and "dryRun" not in event["requestURI"]
            and event["responseStatus"]["code"] == 201
        ):
            found[reference.get("subresource") or "pod"] += 1
    return found


def over_committed(own: Cluster) -> list[str]:
    used: Counter[str] = Counter()
    for pod in own.get("pods", "-A")["items"]:
        if pod["status"]["phase"] in {"Pending", "Running"} and pod["spec"].get("nodeName"):
            requests = [each.get("resources", {}).get("requests", {}).get("cpu", "0") for each in pod["spec"]["containers"]]
            used[pod["spec"]["nodeName"]] += sum(int(text[:-1]) if text.endswith("m") else 1000 * int(text) for text in requests)
    return [f"{node}: {cpu}" for node, cpu in used.items() if cpu > ROOM]


def test_gang_placed_before_its_pods_exist_needs_one_create_per_pod_and_no_bindings(own: Cluster, space: str) -> None:
    create(own, space, gang("j", 20))
    runs(own, space, "j", 20)
    assert made(own, space) == {"pod": 20}
    wait_until(lambda: not annotation(own, space, keys.PLACEMENT), "the placement to go when all pods are there")
    assert over_committed(own) == []


@pytest.mark.parametrize("service", ["scheduler", "job-controller", "apiserver"])
@pytest.mark.parametrize("point", SEEN)
def test_gang_runs_whole_after_a_service_is_killed_at_any_point_of_placement(
    own: Cluster, space: str, service: str, point: str
) -> None:
    if service == "apiserver" and own.server is not None and point != "placing":
        pytest.skip("an outage of the real API server takes long: once is enough")
    create(own, space, gang("j", 16))
    wait_until(lambda: has_come_to(own, space, point), point)
    if service == "apiserver":
        own.outage(1.0)
    else:
        own.kill(service)
    began = time.monotonic()
    runs(own, space, "j", 16)
    print(f"{service} killed while {point}: whole after {time.monotonic() - began:.1f} s")
    assert len(pods(own, space)) == 16
    assert over_committed(own) == []
    assert phase_of(own, space, "j") == "Running"


def has_come_to(own: Cluster, space: str, point: str) -> bool:
    """Whether the gang has got so far."""
    match point:
        case "publishing":
            return bool(own.get("vcjob", "-n", space)["items"])
        case "placing":
            return bool(annotation(own, space, keys.SEATS))
        case "creating":
            return bool(annotation(own, space, keys.PLACEMENT)) or bool(pods(own, space))
        case _:
            return bool(pods(own, space))


def test_pods_that_nodes_reject_since_another_scheduler_was_first_go_back_to_their_gang(own: Cluster, space: str) -> None:
    own.pause("scheduler")
    create(own, space, gang("j", 4, policies=[{"event": "PodFailed", "action": "AbortJob"}]))
    wait_until(lambda: annotation(own, space, keys.SEATS), "the seats to be published")
    with own.standing_aside("job-controller"):
        own.kill("scheduler")
        wait_until(lambda: annotation(own, space, keys.PLACEMENT), "the placement")
        taken = {row[0] for rows in annotation(own, space, keys.PLACEMENT)["nodes"].values() for row in rows}
        for node in taken:
            create(own, space, foreign(node))
        wait_until(
            lambda: len([pod for pod in pods(own, space) if pod["status"]["phase"] == "Running"]) == len(taken), "them to run"
        )
    runs(own, space, "j", 4)
    status = own.get("vcjob", "j", "-n", space)["status"]
    assert (status["state"]["phase"], status.get("retryCount", 0), status.get("failed", 0)) == ("Running", 0, 0)
    assert {pod["spec"]["nodeName"] for pod in pods(own, space) if pod["metadata"]["name"].startswith("j-")}.isdisjoint(taken)
    said = [event["message"] for event in own.get("events", "-n", space)["items"] if event["reason"] == "PodRejected"]
    assert said
    assert all("OutOfcpu" in each and "does not count as a retry" in each for each in said)
    assert over_committed(own) == []


def foreign(node: str) -> str:
    """A pod that another scheduler has bound to `node`, and that leaves no room there."""
    container = {"name": "c", "image": "none", "command": ["sleep", "600"], "resources": {"requests": {"cpu": f"{ROOM - 100}m"}}}
    spec = {"nodeName": node, "schedulerName": "another", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"foreign-{node}"}, "spec": spec})


def test_users_cannot_write_placement_annotations_of_a_podgroup(own: Cluster, space: str) -> None:
    if own.control_plane != "real":
        pytest.skip("admission policies need the real control plane")
    create(own, space, gang("j", 1))
    runs(own, space, "j", 1)
    group = own.get(GROUPS, "-n", space)["items"][0]["metadata"]["name"]
    for key in (keys.SEATS, keys.PLACEMENT):
        said = own.refused("annotate", GROUPS, group, f"{key}={{}}", "--overwrite", "-n", space)
        assert "the job controller and the scheduler write them" in said
    own.kubectl("annotate", GROUPS, group, "mine=a", "-n", space)
