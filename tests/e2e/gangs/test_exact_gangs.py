"""Gangs whose binds are refused, whose nodes vanish, or that an out-of-date view placed: whole in the end, by the audit log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.binds import HOOK, Binds, watched_binds
from tests.e2e.support.cluster import Cluster, running, wait_until
from tests.e2e.support.late_watches import late_watches
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.reserving import events as told
from tests.e2e.support.reserving import group_of

NODES = 8
SIZE = 4
NAMESPACE = "default"
REFUSED = "BindRefused: the API server refused to bind pods of it a moment ago; it is tried again"
MAKING = {"nodes.pyroclast.dev/start-delay": "60s"}
"""Of pods whose containers are still being made for a minute."""


@pytest.fixture(scope="module")
def own(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of these tests' own, whose nodes they fill and delete."""
    folder = tmp_path_factory.mktemp("gangs") / control_plane
    with running(control_plane, folder, nodes=NODES, flags=("--no-place-before-pods",)) as cluster:
        create(cluster, gang("first", 1000, size=1))
        runs(cluster, "first", size=1)
        cleared(cluster)  # takes the garbage collector of kube-controller-manager up to 40 s when it has just learnt of the kinds
        yield cluster


@pytest.fixture(scope="module")
def room(own: Cluster) -> dict[str, int]:
    """What each node has at the begin, in thousandths of a CPU."""
    return {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) * 1000 for node in own.get("nodes")["items"]}


@pytest.fixture(scope="module")
def hook(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Binds]:
    with watched_binds(own, tmp_path_factory.mktemp("binds")) as binds:
        yield binds


@pytest.fixture
def binds(own: Cluster, hook: Binds) -> Iterator[Binds]:
    """All binds are let through, and nothing is left of the test before."""
    yield hook
    hook.let_go()
    hook.refused.clear()
    cleared(own)
    own.kubectl("uncordon", *nodes(own))


def gang(name: str, cpu: int, *, size: int = SIZE, annotations: dict[str, str] | None = None, pool: str = "", **spec: Any) -> str:
    """A Job whose pods ask for `cpu` thousandths each, and of which all must be there, on nodes of that label if it is given."""
    made = json.loads(job(name, command=["sleep", "600"], replicas=size, **spec))
    template = made["spec"]["tasks"][0]["template"]
    template["metadata"] = {"annotations": annotations or {}}
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{cpu}m"
    template["spec"]["nodeSelector"] = {"pool": pool} if pool else {}
    return json.dumps(made)


def stranger(name: str, node: str, cpu: int) -> str:
    """A pod that somebody bound without a scheduler."""
    container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "600"]}
    container["resources"] = {"requests": {"cpu": f"{cpu}m"}}
    spec = {"nodeName": node, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def bind(cluster: Cluster, pod: str, node: str) -> None:
    uid = cluster.get("pod", pod, "-n", NAMESPACE)["metadata"]["uid"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "uid": uid}, "target": target}
    cluster.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding", "-f", "-", stdin=json.dumps(body))


def cleared(cluster: Cluster) -> None:
    """Delete all Jobs and pods, and wait until nothing of them is left: a PodGroup that is there still counts as let in."""
    for kind in ("vcjob", "pod"):
        cluster.kubectl("delete", kind, "--all", "-n", NAMESPACE, "--wait=false")
    for kind in ("pods", "podgroups.scheduling.volcano.sh"):
        wait_until(lambda kind=kind: not cluster.get(kind, "-n", NAMESPACE)["items"], f"all {kind} to be gone")


def create(cluster: Cluster, manifest: str) -> None:
    cluster.create(manifest, NAMESPACE)


def nodes(cluster: Cluster) -> list[str]:
    return [node["metadata"]["name"] for node in cluster.get("nodes")["items"]]


def pods(cluster: Cluster, prefix: str = "") -> list[dict[str, Any]]:
    found = cluster.get("pods", "-n", NAMESPACE)["items"]
    return [pod for pod in found if pod["metadata"]["name"].startswith(prefix)]


def placed(cluster: Cluster, name: str) -> list[str]:
    """The nodes of the Job's pods that have one and are neither over nor on their way out."""
    alive = [pod for pod in pods(cluster, f"{name}-") if pod["status"]["phase"] in {"Pending", "Running"}]
    return [
        pod["spec"]["nodeName"] for pod in alive if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    ]


def runs(cluster: Cluster, name: str, *, size: int = SIZE) -> None:
    """Wait until all members run."""
    job = ("vcjob", name, "-n", NAMESPACE)
    wait_until(lambda: cluster.get(*job).get("status", {}).get("running") == size, f"{name} to be whole")


def is_running(cluster: Cluster, pod: str) -> bool:
    return bool(cluster.get("pod", pod, "-n", NAMESPACE)["status"]["phase"] == "Running")


def group(cluster: Cluster, name: str) -> tuple[str, str]:
    """Phase of the PodGroup of a Job, and what it says of why it waits; empty where it is not made yet."""
    groups = cluster.get("podgroups.scheduling.volcano.sh", "-n", NAMESPACE)["items"]
    status = next((each for each in groups if each["metadata"]["name"] == group_of(cluster, name)), {}).get("status", {})
    said = [each.get("message", "") for each in status.get("conditions", ()) if each["type"] == "Unschedulable"]
    return status.get("phase", ""), " ".join(said)


def judged(cluster: Cluster, room: dict[str, int], gangs: dict[str, int]) -> Ledger:
    """The audit log, after what must hold whenever nothing goes on: `gangs` are the Jobs that are there, with their minimum."""
    ledger = Ledger.of(cluster.audit.events())
    assert ledger.bound_twice() == []
    assert ledger.over_committed(room) == []
    for name, minimum in gangs.items():
        there = ledger.there(group_of(cluster, name))
        assert not there or len(there) >= minimum
        assert sorted(stay.node for stay in there) == sorted(placed(cluster, name))
        assert not {stay.node for stay in there} & ledger.lost
    return ledger


def event(second: int, resource: str, verb: str, code: int = 200, **said: str) -> dict[str, Any]:
    """What an API server logs of a request; `resource` may have a subresource, and `said` is what the webhook adds."""
    plural, _, subresource = resource.partition("/")
    return {
        "verb": verb,
        "requestURI": "/",
        "objectRef": {"resource": plural, **({"subresource": subresource} if subresource else {})},
        "responseStatus": {"code": code},
        "annotations": {f"{HOOK}/{key}": text for key, text in said.items()},
        **dict.fromkeys(("requestReceivedTimestamp", "stageTimestamp"), f"2026-01-01T00:00:{second:02d}.000000Z"),
    }


def lived(second: int, name: str, *, uid: str = "", node: str = "n", binds: int = 1) -> list[dict[str, Any]]:
    """A pod that takes half a node is made and bound."""
    uid = uid or name
    made = event(second, "pods", "create", 201, uid=uid, name=name, cpu="500", gang="g", node="")
    return [made, *(event(second + 1, "pods/binding", "create", 201, uid=uid, node=node) for _ in range(binds))]


def test_audit_ledger_detects_double_binds_and_overcommitted_nodes() -> None:
    room = {"n": 1000, "m": 1000}
    two = [*lived(1, "a"), *lived(1, "b")]
    assert Ledger.of(two).bound_twice() == []
    assert Ledger.of(two).over_committed(room) == []
    assert Ledger.of([*two, *lived(1, "c", binds=2, node="m")]).bound_twice() == ["c"]
    assert Ledger.of([*two, *lived(3, "b", uid="other", node="m")]).bound_twice() == ["b"]
    third = lived(5, "c")
    assert len(Ledger.of([*two, *third]).over_committed(room)) == 1
    refused = event(6, "pods/binding", "create", 403, uid="c", node="n")
    assert Ledger.of([*two, third[0], refused]).over_committed(room) == []
    for last in (
        event(4, "pods", "delete", uid="a", grace="0"),
        event(4, "pods/status", "patch", uid="a", phase="Failed", reason=""),
    ):
        ledger = Ledger.of([*two, last, *third])
        assert ledger.over_committed(room) == []
        assert [stay.name for stay in ledger.there("g")] == ["b", "c"]
    going = event(4, "pods", "delete", uid="a", grace="30")
    assert len(Ledger.of([*two, going, *third]).over_committed(room)) == 1
    foreign = event(4, "pods", "create", 201, uid="s", name="s", cpu="600", gang="", node="n")
    assert len(Ledger.of([*two, foreign]).over_committed(room)) == 1


def test_temporarily_refused_binds_are_retried_until_the_gang_runs(own: Cluster, binds: Binds, room: dict[str, int]) -> None:
    binds.refused = {"g-worker-1": 2, "g-worker-2": 1}
    create(own, gang("g", 4000))
    runs(own, "g")
    members = judged(own, room, {"g": SIZE}).of_gang(group_of(own, "g"))
    assert {stay.name: stay.refusals for stay in members} == {"g-worker-0": 0, "g-worker-1": 2, "g-worker-2": 1, "g-worker-3": 0}


def test_partly_bound_gang_reports_unknown_and_keeps_its_running_pods_until_complete(
    own: Cluster, binds: Binds, room: dict[str, int]
) -> None:
    """Nobody takes away what runs; a policy for the event Unknown may."""
    binds.refused = {"g-worker-1": math.inf}
    create(own, gang("g", 4000))

    def says_so() -> bool:  # while the bind is tried again nothing is said
        phase, why = group(own, "g")
        return phase == "Unknown" and "3 Running, 4 minAvailable" in why and f" {REFUSED}" in why

    wait_until(says_so, "the PodGroup to say that half of it runs")
    create(own, gang("other", 4000))
    runs(own, "other")
    binds.refused.clear()
    runs(own, "g")
    assert len(judged(own, room, {"g": SIZE, "other": SIZE}).of_gang(group_of(own, "g"))) == SIZE, "nobody was made anew"


def test_incomplete_gang_releases_its_nodes_to_a_waiting_gang(own: Cluster, binds: Binds, room: dict[str, int]) -> None:
    """As long as nodes make its containers nothing is lost with its pods; who waited gets the room."""
    own.kubectl("label", "node", *nodes(own)[:2], "pool=small")
    binds.refused = {"g-worker-0": math.inf}
    create(own, gang("g", 8000, size=2, annotations=MAKING, pool="small"))
    wait_until(lambda: len(placed(own, "g")) == 1, "half of the gang to be bound")
    create(own, gang("other", 4500, size=2, pool="small"))  # each needs a node
    runs(own, "other", size=2)
    wait_until(lambda: REFUSED in group(own, "g")[1], "the PodGroup to say why it waits")
    assert told(own, group_of(own, "g"), "GangReleased") != []
    judged(own, room, {"g": 2, "other": 2})
    own.kubectl("delete", "vcjob", "other", "-n", NAMESPACE)
    binds.refused.clear()
    wait_until(lambda: len(placed(own, "g")) == 2, "the gang to be whole")
    judged(own, room, {"g": 2})


def test_gang_is_restarted_when_a_foreign_pod_takes_the_node_of_a_pending_bind(
    own: Cluster, binds: Binds, room: dict[str, int]
) -> None:
    """The API server binds what does not fit: the node refuses it, and the policy of the Job has the gang made anew, whole."""
    names = [f"g-worker-{i}" for i in range(SIZE)]
    binds.hold(*names)
    create(own, gang("g", 8000, policies=[{"event": "PodFailed", "action": "RestartJob"}]))
    wait_until(lambda: binds.waiting.keys() == set(names), "all binds to be under way")
    create(own, stranger("stranger", binds.waiting[names[0]], 8000))
    wait_until(lambda: is_running(own, "stranger"), "the stranger to run")
    binds.let_go()
    wait_until(lambda: own.get("vcjob", "g", "-n", NAMESPACE)["status"].get("retryCount") == 1, "the Job to be restarted")
    runs(own, "g")
    ledger = judged(own, room, {"g": SIZE})
    assert refused_by_nodes(ledger, own) == names[:1]
    assert len(ledger.of_gang(group_of(own, "g"))) == 2 * SIZE


def test_gang_runs_when_another_binder_binds_one_of_its_pods_first(own: Cluster, binds: Binds, room: dict[str, int]) -> None:
    """As a scheduler does that lost its Lease a moment ago, and whose last bind arrives late."""
    binds.hold("late-worker-0")
    create(own, gang("late", 4000))
    wait_until(lambda: binds.waiting, "the bind to be under way")
    other = next(node for node in reversed(nodes(own)) if node != binds.waiting["late-worker-0"])
    bind(own, "late-worker-0", other)
    binds.let_go()
    runs(own, "late")
    found = judged(own, room, {"late": SIZE}).of_gang(group_of(own, "late"))
    assert [(stay.refusals, stay.node) for stay in found if stay.name == "late-worker-0"] == [(1, other)]
    assert len(found) == SIZE, "nobody was made anew"
    conditions = own.get("pod", "late-worker-0", "-n", NAMESPACE)["status"]["conditions"]
    assert [each["status"] for each in conditions if each["type"] == "PodScheduled"] == ["True"]
    assert told(own, "late-worker-0", "FailedScheduling") == []


def refused_by_nodes(ledger: Ledger, cluster: Cluster) -> list[str]:
    return sorted(stay.name for stay in ledger.of_gang(group_of(cluster, "g")) if stay.reason == "OutOfcpu")


def test_only_the_pod_refused_by_its_node_is_replaced_after_placement_from_a_stale_cache(
    own: Cluster, binds: Binds, room: dict[str, int]
) -> None:
    first, *others = nodes(own)
    own.kubectl("cordon", *others[2:])
    with late_watches(own, "scheduler", "pyroclast-scheduler") as late:
        create(own, gang("g", 8000, policies=[{"event": "PodFailed", "action": "RestartPod"}]))
        wait_until(lambda: "3 Schedulable" in group(own, "g")[1], "the gang to wait for one more node")
        late.hold()
        create(own, stranger("stranger", first, 8000))
        wait_until(lambda: is_running(own, "stranger"), "the stranger to run")
        own.kubectl("uncordon", others[2])
        wait_until(lambda: len(placed(own, "g")) == SIZE - 1, "the node to refuse one")
        late.let_go()
        own.kubectl("uncordon", others[3])
        runs(own, "g")
        ledger = judged(own, room, {"g": SIZE})
    assert len(refused_by_nodes(ledger, own)) == 1
    assert len(ledger.of_gang(group_of(own, "g"))) == SIZE + 1, "the others stayed"


@pytest.mark.parametrize("action", ["", "RestartPod", "RestartTask"])
@pytest.mark.parametrize("is_drained", [False, True], ids=["", "drained"])
def test_the_place_of_a_lost_member_is_kept_for_its_replacement(
    own: Cluster, binds: Binds, room: dict[str, int], action: str, *, is_drained: bool
) -> None:
    own.kubectl("label", "node", *nodes(own)[:SIZE], "pool=kept", "--overwrite")
    made = json.loads(gang("g", 5000, pool="kept"))
    (worker,) = made["spec"]["tasks"]
    policies = [{"event": "PodEvicted", "action": action}] if action else []
    made["spec"]["tasks"] = [
        {**worker, "replicas": SIZE - 1},
        {**worker, "name": "launcher", "replicas": 1, "policies": policies},
    ]
    create(own, json.dumps(made))
    runs(own, "g")
    create(own, gang("rival", 5000, size=1, pool="kept"))
    wait_until(lambda: "NodesFull" in group(own, "rival")[1], "the rival to wait")
    before = own.get("pod", "g-launcher-0", "-n", NAMESPACE)
    if is_drained:
        own.kubectl("cordon", before["spec"]["nodeName"])
    own.kubectl("delete", "pod", "g-launcher-0", "-n", NAMESPACE, "--wait=false")

    def is_back() -> bool:
        found = pods(own, "g-launcher-0")
        return bool(found and found[0]["metadata"]["uid"] != before["metadata"]["uid"])

    wait_until(is_back, "the replacement to be created")
    own.kubectl("uncordon", before["spec"]["nodeName"])
    wait_until(lambda: len(placed(own, "g")) == SIZE, "the gang to be whole")
    judged(own, room, {"g": SIZE, "rival": 1})
    assert placed(own, "rival") == []


def test_gang_is_completed_again_after_its_nodes_are_deleted_during_and_after_binding(
    own: Cluster, binds: Binds, room: dict[str, int]
) -> None:
    """One between decision and bind, which the API server carries out all the same; later one with a member that runs."""
    binds.hold("g-worker-1")
    create(own, gang("g", 8000))
    wait_until(lambda: binds.waiting, "the bind to be under way")
    own.kubectl("delete", "node", binds.waiting["g-worker-1"])
    binds.let_go()
    wait_until(lambda: told(own, group_of(own, "g"), "GangReleased"), "the scheduler to say that it is made anew")
    runs(own, "g")
    judged(own, room, {"g": SIZE})
    own.kubectl("delete", "node", placed(own, "g")[0])
    wait_until(lambda: len(Ledger.of(own.audit.events()).of_gang(group_of(own, "g"))) == SIZE + 2, "another to be made")
    runs(own, "g")
    assert len(judged(own, room, {"g": SIZE}).lost) == 2
