"""Jobs whose gangs are placed before their pods exist: what the controller publishes, creates on nodes, and gives up."""

import asyncio
import copy

import pytest

from pyroclast.api import keys
from pyroclast.api.types import JOBS, POD_GROUPS, PODS, Key
from pyroclast.kube.basics.errors import Forbidden, ServerError
from pyroclast.kube.http.client import PatchKind
from pyroclast.lifecycle.seats.contract import Seat, encode, parse_placement, parse_seats, placed

from .cluster import NS, task
from .memory_cluster import key_of, virtual_cluster


def group(cluster, name="j"):
    return next(
        (each for key, each in cluster.server.of(POD_GROUPS).items() if key.name.startswith(f"{name}-0")),
        None,
    )


def published(cluster, name="j"):
    found = group(cluster, name)
    text = found["metadata"]["annotations"].get(keys.SEATS) if found else None
    return parse_seats(text) if text else None


async def gang(cluster, *tasks, **spec):
    """A Job whose seats are published."""
    cluster.job("j", *tasks, **spec)
    await cluster.until(lambda: published(cluster))


def place(cluster, nodes, name="j", *, withdrawn=""):
    """Let the gang in with this placement: (role, index) to node."""
    found = placed(published(cluster, name).generation, {Seat(*seat): node for seat, node in nodes.items()})
    body = {"metadata": {"annotations": {keys.PLACEMENT: encode(found)}}, "status": {"phase": "Inqueue"}}
    cluster.server.patch(POD_GROUPS, key_of(group(cluster, name)), body, PatchKind.MERGE)


def withdraw(cluster, why="Stalled"):
    found = group(cluster)["metadata"]["annotations"][keys.PLACEMENT]
    text = encode(type(parse_placement(found))(nodes=parse_placement(found).nodes, withdrawn=why))
    cluster.server.patch(
        POD_GROUPS, key_of(group(cluster)), {"metadata": {"annotations": {keys.PLACEMENT: text}}}, PatchKind.MERGE
    )


def nodes(cluster):
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in cluster.pods()}


def writes(cluster, verb, kind):
    return cluster.server.writes[verb, kind.qualified]


async def goes_the_present_way(cluster, way):
    """The PodGroup says that the present way is gone, and why."""
    await cluster.until(lambda: published(cluster))
    assert (published(cluster).way, published(cluster).tasks) == (way, ())
    cluster.admit()
    await cluster.until(lambda: len(nodes(cluster)) == 2)
    assert set(nodes(cluster).values()) == {""}


@virtual_cluster(seats=True)
async def test_pods_are_created_on_their_nodes_with_one_write_each(cluster):
    await gang(cluster, task("a", 2), task("b", 1))
    assert [(each.role, each.prefix, each.count) for each in published(cluster).tasks] == [("a", "j-a-", 2), ("b", "j-b-", 1)]
    place(cluster, {("a", 0): "n1", ("a", 1): "n2", ("b", 0): "n2"})
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": "n2", "j-b-0": "n2"})
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")
    assert (writes(cluster, "dry run", PODS), writes(cluster, "create", PODS)) == (2, 3)
    assert writes(cluster, "patch", POD_GROUPS) == 0  # all of them are the scheduler's


@virtual_cluster(seats=True)
async def test_dry_run_of_a_pod_template_is_reused_by_later_jobs_for_ten_minutes(cluster):
    for index in range(5):
        cluster.job(f"j{index}", task("a", 2))
        await cluster.until(lambda index=index: published(cluster, f"j{index}"))
    assert writes(cluster, "dry run", PODS) == 1
    found = published(cluster, "j4").tasks[0].pod
    assert found.labels[keys.JOB_NAME] == "j4"
    assert found.annotations[keys.GROUP_NAME] == group(cluster, "j4")["metadata"]["name"]

    await asyncio.sleep(601)
    cluster.job("late", task("a", 2))
    await cluster.until(lambda: published(cluster, "late"))
    assert writes(cluster, "dry run", PODS) == 2


@virtual_cluster(seats=True)
async def test_concurrent_jobs_of_one_pod_template_share_one_dry_run(cluster):
    for index in range(20):
        cluster.job(f"j{index:02}", task("a", 2))
    await cluster.until(lambda: all(published(cluster, f"j{index:02}") for index in range(20)))
    assert writes(cluster, "dry run", PODS) == 1


@virtual_cluster(seats=True)
async def test_gang_admitted_without_a_placement_gets_pods_without_a_node(cluster):
    await gang(cluster, task("a", 2))
    cluster.admit()
    await cluster.until(lambda: len(nodes(cluster)) == 2)
    assert set(nodes(cluster).values()) == {""}


@virtual_cluster(seats=True)
async def test_pod_without_a_node_in_the_placement_is_created_without_a_node(cluster):
    await gang(cluster, task("a", 3, minAvailable=2))
    place(cluster, {("a", 0): "n1", ("a", 2): "n1"})
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": "", "j-a-2": "n1"})


@virtual_cluster()
async def test_seats_are_not_published_by_default(cluster):
    cluster.job("j", task("a", 2))
    await cluster.until(lambda: group(cluster))
    assert keys.SEATS not in group(cluster)["metadata"]["annotations"]
    assert writes(cluster, "dry run", PODS) == 0


@virtual_cluster()
async def test_seat_annotations_of_a_job_are_not_copied_to_its_podgroup(cluster):
    forged = {keys.SEATS: "x", keys.PLACEMENT: "y", "mine": "z"}
    body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": "j", "namespace": NS, "annotations": forged}}
    cluster.server.create(JOBS, {**body, "spec": {"minAvailable": 1, "queue": "default", "tasks": [task("a", 1)]}})
    await cluster.until(lambda: group(cluster))
    assert {**group(cluster)["metadata"]["annotations"]} == {"mine": "z"}


def sidecar(pod):
    pod = copy.deepcopy(pod)
    pod["spec"]["containers"].append({"name": "side", "resources": {"requests": {"cpu": "1"}}})
    return pod


@virtual_cluster(seats=True)
async def test_published_seats_include_containers_that_admission_adds(cluster):
    cluster.server.admit = lambda kind, item: sidecar(item) if kind == PODS else item
    await gang(cluster, task("a", 2))
    assert [each.name for each in published(cluster).tasks[0].pod.spec.containers][-1] == "side"
    place(cluster, {("a", 0): "n1", ("a", 1): "n1"})
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": "n1"})


@virtual_cluster(seats=True)
async def test_gang_falls_back_to_pods_without_a_node_when_admission_differs_from_the_dry_run(cluster):
    await gang(cluster, task("a", 4))
    cluster.server.admit = lambda kind, item: sidecar(item) if kind == PODS else item
    place(cluster, {("a", index): "n1" for index in range(4)})
    await cluster.until(lambda: len(nodes(cluster)) == 4 and set(nodes(cluster).values()) == {""})
    assert (published(cluster).way, published(cluster).generation) == ("Admission", 2)
    assert keys.PLACEMENT not in group(cluster)["metadata"]["annotations"]
    assert cluster.status("j").get("retryCount", 0) == 0
    cluster.job("k", task("a", 4))  # of the same template
    await cluster.until(lambda: published(cluster, "k"))
    assert published(cluster, "k").way == "Admission"
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")


@virtual_cluster(seats=True)
async def test_withdrawal_of_seats_is_confirmed_before_pods_are_created_without_a_node(cluster):
    await gang(cluster, task("a", 3))

    def admit(kind, item):
        if kind == PODS:
            raise ServerError(500, "InternalError", "the webhook is down")
        return item

    cluster.server.admit = admit
    place(cluster, {("a", index): "n1" for index in range(3)})

    await asyncio.sleep(5)
    withdraw(cluster)
    await asyncio.sleep(5)
    said = []
    cluster.server.on_write = lambda type_, kind, item: said.append((kind, published(cluster).way))
    cluster.server.admit = lambda _, item: item
    await cluster.until(lambda: len(nodes(cluster)) == 3)
    assert set(nodes(cluster).values()) == {""}
    assert {way for kind, way in said if kind == PODS.qualified} == {"Stalled"}


@virtual_cluster(seats=True)
async def test_gang_with_a_refused_pod_releases_all_its_seats(cluster):
    await gang(cluster, task("a", 3))

    def admit(kind, item):
        if kind == PODS and item["metadata"]["name"] == "j-a-2":
            raise Forbidden(403, "Forbidden", 'pods "j-a-2" is forbidden: exceeded quota: q')
        return item

    cluster.server.admit = admit
    place(cluster, {("a", index): "n1" for index in range(3)})
    await cluster.until(lambda: published(cluster) and published(cluster).way == "Refused")
    cluster.drain()
    await cluster.until(lambda: all(not node for node in nodes(cluster).values()), within=20)
    cluster.server.admit = lambda _, item: item
    await cluster.until(lambda: len(nodes(cluster)) == 3, within=200)
    assert set(nodes(cluster).values()) == {""}


async def started(cluster, *policies, size=2):
    """A gang that was placed before its pods existed and runs; the scheduler has taken its placement away."""
    await gang(cluster, task("a", size), policies=list(policies))
    place(cluster, {("a", index): "n1" for index in range(size)})
    await cluster.until(lambda: len(nodes(cluster)) == size)
    cluster.run_pods()
    body = {"metadata": {"annotations": {keys.PLACEMENT: None}}, "status": {"phase": "Running"}}
    cluster.server.patch(POD_GROUPS, key_of(group(cluster)), body, PatchKind.MERGE)
    await cluster.until(lambda: cluster.phase("j") == "Running")


def scale(cluster, replicas):
    spec = copy.deepcopy(cluster.server.of(JOBS)[Key(NS, "j")]["spec"])
    spec["tasks"][0]["replicas"] = replicas
    spec["minAvailable"] = min(spec["minAvailable"], replicas)
    cluster.server.patch(JOBS, Key(NS, "j"), {"spec": spec}, PatchKind.MERGE)


def asked(cluster):
    """The seats that are asked for, by index, and the generation."""
    found = published(cluster)
    return sorted(seat.index for seat in found.wanted()), found.generation


async def loses_a_pod(cluster, *, asking):
    """A pod is deleted, and a seat for the next one is asked for in that generation."""
    cluster.server.delete(PODS, Key(NS, "j-a-1"), grace=0)
    await cluster.until(lambda: asked(cluster) == ([1], asking))


EVICTED = {"event": "PodEvicted", "action": "RestartPod"}


@virtual_cluster(seats=True)
async def test_a_pod_that_is_made_again_gets_a_new_seat_each_time(cluster):
    await started(cluster, EVICTED)
    for generation, node in ((2, "n2"), (3, "n3")):
        cluster.server.delete(PODS, Key(NS, "j-a-1"), grace=0)
        await cluster.until(lambda generation=generation: asked(cluster) == ([1], generation))
        await asyncio.sleep(2)
        assert set(nodes(cluster)) == {"j-a-0"}  # where it goes is not known yet
        place(cluster, {("a", 1): node})
        await cluster.until(lambda node=node: nodes(cluster) == {"j-a-0": "n1", "j-a-1": node})
        cluster.run_pods()
        await cluster.until(lambda: cluster.status("j").get("running") == 2)
    assert writes(cluster, "dry run", PODS) == 1


@virtual_cluster(seats=True)
async def test_recreated_pod_without_a_place_gets_no_node_and_the_next_requests_a_seat(cluster):
    await started(cluster, EVICTED)
    await loses_a_pod(cluster, asking=2)
    place(cluster, {("a", 1): ""})
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": ""})
    await loses_a_pod(cluster, asking=3)


@virtual_cluster(seats=True)
async def test_unanswered_seat_request_creates_the_pod_without_a_node_and_records_why(cluster):
    await started(cluster, EVICTED)
    cluster.server.delete(PODS, Key(NS, "j-a-1"), grace=0)
    await cluster.until(lambda: published(cluster).way == "Unanswered", within=15)
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": ""})
    before = writes(cluster, "patch", POD_GROUPS)
    cluster.server.delete(PODS, Key(NS, "j-a-1"), grace=0)
    await cluster.until(lambda: cluster.status("j").get("running") == 1)
    await asyncio.sleep(5)
    assert writes(cluster, "patch", POD_GROUPS) == before  # it is said once


@virtual_cluster(seats=True)
async def test_withdrawn_seat_of_a_recreated_pod_leaves_the_other_pods_running(cluster):
    await started(cluster, EVICTED, size=3)
    before = {pod["metadata"]["uid"] for pod in cluster.pods() if pod["metadata"]["name"] != "j-a-1"}
    cluster.server.admit = refusing
    cluster.server.delete(PODS, Key(NS, "j-a-1"), grace=0)
    await cluster.until(lambda: asked(cluster) == ([1], 2) or published(cluster).way)
    place(cluster, {("a", 1): "n2"})
    withdraw(cluster, "NodeLost")
    await cluster.until(lambda: published(cluster).way)
    cluster.server.admit = lambda _, item: item
    await cluster.until(lambda: nodes(cluster).get("j-a-1") == "", within=30)
    assert before < {pod["metadata"]["uid"] for pod in cluster.pods()}


def refusing(kind, item):
    if kind == PODS and not item["metadata"]["name"].endswith("-seats"):
        raise ServerError(500, "InternalError", "the webhook is down")
    return item


@virtual_cluster(seats=True)
async def test_pods_added_by_scaling_up_get_seats(cluster):
    await started(cluster)
    scale(cluster, 4)
    await cluster.until(lambda: asked(cluster) == ([2, 3], 2))
    place(cluster, {("a", 2): "n2", ("a", 3): ""})
    await cluster.until(lambda: len(nodes(cluster)) == 4)
    assert [nodes(cluster)[f"j-a-{index}"] for index in range(4)] == ["n1", "n1", "n2", ""]


@virtual_cluster(seats=True)
async def test_scaling_back_down_releases_the_seats_requested_for_added_pods(cluster):
    await started(cluster)
    scale(cluster, 4)
    await cluster.until(lambda: asked(cluster) == ([2, 3], 2))
    scale(cluster, 2)
    await asyncio.sleep(1)
    place(cluster, {("a", 2): "n2", ("a", 3): "n2"})
    await cluster.until(lambda: published(cluster).generation == 3)
    assert asked(cluster) == ([], 3)
    assert keys.PLACEMENT not in group(cluster)["metadata"]["annotations"]
    await asyncio.sleep(20)
    assert (asked(cluster), published(cluster).way) == (([], 3), "")
    assert set(nodes(cluster)) == {"j-a-0", "j-a-1"}


@virtual_cluster(seats=True)
async def test_recreated_pod_gets_no_node_after_seats_were_disabled(cluster):
    await started(cluster, EVICTED)
    await cluster.replica.kill()
    cluster.seats = False
    await cluster.start_controller()
    cluster.server.delete(PODS, Key(NS, "j-a-1"), grace=0)
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": ""})
    assert published(cluster).way == "Started"


@virtual_cluster(seats=True)
async def test_scaling_down_does_not_give_up_the_seats(cluster):
    await started(cluster, size=3)
    scale(cluster, 2)
    await cluster.until(lambda: any("deletionTimestamp" in pod["metadata"] for pod in cluster.pods()))
    cluster.drain()
    await asyncio.sleep(5)
    assert set(nodes(cluster)) == {"j-a-0", "j-a-1"}
    assert published(cluster).way == ""


@virtual_cluster(seats=True)
async def test_a_job_that_starts_over_gets_new_seats(cluster):
    await started(cluster, {"event": "PodFailed", "action": "RestartJob"})
    first = group(cluster)["metadata"]["uid"]
    cluster.set_phase(cluster.pods()[0], "Failed", 1)

    def has_new_seats():
        cluster.drain()
        return group(cluster) and group(cluster)["metadata"]["uid"] != first and published(cluster)

    await cluster.until(has_new_seats)
    assert [(each.role, each.count) for each in published(cluster).tasks] == [("a", 2)]
    place(cluster, {("a", 0): "n2", ("a", 1): "n3"})
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n2", "j-a-1": "n3"})
    assert writes(cluster, "dry run", PODS) == 1


@virtual_cluster(seats=True)
async def test_restarted_controller_uses_the_existing_placement(cluster):
    await gang(cluster, task("a", 3))
    await cluster.replica.kill()
    place(cluster, {("a", index): f"n{index}" for index in range(3)})
    await cluster.start_controller()
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n0", "j-a-1": "n1", "j-a-2": "n2"})


@virtual_cluster(seats=True)
async def test_a_gang_that_is_scaled_before_it_is_placed_publishes_its_seats_anew(cluster):
    await gang(cluster, task("a", 2))
    scale(cluster, 3)
    await cluster.until(lambda: published(cluster).generation == 2)
    assert (published(cluster).tasks[0].count, published(cluster).asked) == (3, None)
    place(cluster, {("a", index): "n1" for index in range(3)})
    await cluster.until(lambda: set(nodes(cluster).values()) == {"n1"} and len(nodes(cluster)) == 3)


@virtual_cluster(seats=True)
async def test_a_gang_that_is_scaled_while_its_pods_are_created_gives_its_seats_up(cluster):
    await gang(cluster, task("a", 2))
    cluster.server.admit = refusing
    place(cluster, {("a", index): "n1" for index in range(2)})
    await asyncio.sleep(2)
    scale(cluster, 3)
    await cluster.until(lambda: published(cluster).way == "Scaled")
    cluster.server.admit = lambda _, item: item
    await cluster.until(lambda: len(nodes(cluster)) == 3, within=20)
    assert set(nodes(cluster).values()) == {""}


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        pytest.param({"affinity": {"nodeAffinity": {"a": 1}}}, "Affinity", id="affinity"),
        pytest.param({"schedulerName": "other"}, "Scheduler", id="scheduler"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, "Gates", id="gates"),
    ],
)
@virtual_cluster(seats=True)
async def test_gang_with_unsupported_pod_fields_gets_no_seats_and_the_reason_is_recorded(cluster, spec, way):
    row = task("a", 2)
    row["template"]["spec"] |= spec
    cluster.job("j", row)
    await goes_the_present_way(cluster, way)
    assert writes(cluster, "dry run", PODS) == 0


@virtual_cluster(seats=True)
async def test_refused_dry_run_does_not_prevent_pod_creation(cluster):
    def admit(kind, item):
        if kind == PODS and item["metadata"]["name"].endswith("-seats"):
            raise Forbidden(403, "Forbidden", "no dry runs here")
        return item

    cluster.server.admit = admit
    cluster.job("j", task("a", 2))
    await goes_the_present_way(cluster, "Refused")


def turn_away(cluster, name):
    """Let the kubelet reject the pod, which then has no statuses of containers."""
    said = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
    cluster.server.patch(PODS, Key(NS, name), {"status": said}, PatchKind.MERGE)


FAILS = {"event": "PodFailed", "action": "AbortJob"}


@virtual_cluster(seats=True)
async def test_pod_that_a_node_rejects_goes_back_to_its_gang_without_a_retry(cluster):
    await gang(cluster, task("a", 2), policies=[FAILS])
    place(cluster, {("a", 0): "n1", ("a", 1): "n2"})
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": "n1", "j-a-1": "n2"})
    turn_away(cluster, "j-a-1")
    await cluster.until(lambda: cluster.drain() or nodes(cluster) == {"j-a-0": "n1", "j-a-1": ""})
    cluster.run_pods()
    await cluster.until(lambda: cluster.status("j").get("running") == 2)
    status = cluster.status("j")
    assert (status["state"]["phase"], status.get("retryCount", 0), status.get("failed", 0)) == ("Running", 0, 0)


@virtual_cluster(seats=True)
async def test_running_gang_gets_no_further_seats_after_a_node_rejected_one_of_its_pods(cluster):
    await started(cluster, FAILS)
    scale(cluster, 3)
    await cluster.until(lambda: asked(cluster) == ([2], 2))
    place(cluster, {("a", 2): "n2"})
    await cluster.until(lambda: nodes(cluster).get("j-a-2") == "n2")
    turn_away(cluster, "j-a-2")
    await cluster.until(lambda: cluster.drain() or nodes(cluster).get("j-a-2") == "")
    assert (cluster.phase("j"), published(cluster).way) == ("Running", "Rejected")


@virtual_cluster(seats=True)
async def test_rejected_pod_without_a_seat_counts_as_failed_whatever_its_template_says(cluster):
    marked = task("a", 1)
    marked["template"].setdefault("metadata", {})["annotations"] = {keys.CREATED_ON_NODE: "true"}
    await gang(cluster, marked, policies=[FAILS])
    cluster.admit()
    await cluster.until(lambda: nodes(cluster) == {"j-a-0": ""})
    turn_away(cluster, "j-a-0")
    await cluster.until(lambda: cluster.phase("j") == "Aborted")
