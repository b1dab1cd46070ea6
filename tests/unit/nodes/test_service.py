import asyncio
import ssl

import aiohttp
import orjson
import pytest

from pyroclast.api.types import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import PatchKind
from pyroclast_standalone.nodes import pods as keeper


async def ready_nodes(cluster, count=2):
    async with asyncio.timeout(60):
        while True:
            nodes, _ = await cluster.client.list(NODES)
            ready = [n for n in nodes if any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"]["conditions"])]
            if len(ready) >= count and not any(n["spec"].get("taints") for n in nodes):
                return nodes
            await asyncio.sleep(0.02)


async def start(cluster, **flags):
    """Start the nodes, and wait until they are ready."""
    await cluster.start(**flags)
    return await ready_nodes(cluster)


async def node_until(cluster, name, condition):
    async with asyncio.timeout(60):
        while not condition(node := await cluster.client.get(NODES, Key("", name))):
            await asyncio.sleep(0.02)
        return node


def status_writes(cluster, name):
    """Every change of a pod but its creation: nobody else writes it here."""
    changes = [change for change in cluster.server.history("pods") if change.current.name == name]
    return changes[1:]


async def annotate(cluster, kind, key, **annotations):
    named = {f"nodes.pyroclast.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    await cluster.client.patch(kind, key, {"metadata": {"annotations": named}}, PatchKind.MERGE)


async def test_nodes_register_with_configured_capacity_labels_and_a_lease(cluster):
    nodes = await start(cluster, nodes="2", cpu="4", resource=["nvidia.com/gpu=8"], label=["zone=a"])
    assert [n["metadata"]["name"] for n in nodes] == ["node-0", "node-1"]
    assert nodes[0]["status"]["allocatable"] == {
        "cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "8"
    }  # fmt: skip
    assert nodes[0]["metadata"]["labels"]["zone"] == "a"
    async with asyncio.timeout(60):
        while len((await cluster.client.list(LEASES, "kube-node-lease"))[0]) < 1:
            await asyncio.sleep(0.05)


async def test_pod_status_is_written_twice_from_start_to_end(cluster):
    await start(cluster)
    await cluster.run_pod("p", "echo hi; sleep 0.3; exit 3")
    running = await cluster.until_phase("p", "Running")
    assert running["status"]["podIP"].startswith("10.")
    pod = await cluster.until_phase("p", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert len(status_writes(cluster, "p")) == 2


async def test_the_pod_log_has_a_line_for_each_start_and_each_end(cluster, tmp_path):
    await start(cluster, nodes="2", cpu="4", pod_log=str(tmp_path / "pods.jsonl"))
    await cluster.run_pod("short", "sleep 0.2; exit 3")
    await cluster.run_pod("long", "sleep 600")
    await cluster.run_pod("large", "true", container={"resources": {"requests": {"cpu": "9"}}})
    short = await cluster.until_phase("short", "Failed")
    await cluster.until_phase("large", "Failed")
    await cluster.until_phase("long", "Running")

    async def lines_until(count):
        async with asyncio.timeout(60):
            while len(lines := (tmp_path / "pods.jsonl").read_bytes().splitlines()) < count:
                await asyncio.sleep(0.02)
        return [orjson.loads(line) for line in lines]

    await cluster.stop()
    await cluster.start()  # it finds `long` and writes its start again
    await lines_until(6)
    await cluster.client.delete(PODS, Key("default", "long"), grace_seconds=0)
    lines = await lines_until(7)
    events = [(line["pod"].removeprefix("default/"), line["event"]) for line in lines]
    assert sorted(set(events)) == [(pod, event) for pod in ("large", "long", "short") for event in ("ended", "started")]
    assert events.count(("long", "started")) == 2
    (started,) = (line for line in lines if line["pod"] == "default/short" and line["event"] == "started")
    (ended,) = (line for line in lines if line["pod"] == "default/short" and line["event"] == "ended")
    assert started["bound"] == short["metadata"]["creationTimestamp"], "nobody bound it: it was made on its node"
    finished = short["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert (ended["uid"], ended["node"], ended["time"][:19]) == (short["metadata"]["uid"], "node-0", finished[:19])


async def test_pod_logs_are_served_by_the_kubelet_endpoint(cluster):
    node = (await start(cluster))[0]
    await cluster.run_pod("p", "echo one; echo two; sleep 0.5; echo $POD", container={"env": [_field("POD", "metadata.name")]})
    await cluster.run_pod("long", "echo one; echo two; sleep 600")
    await cluster.until_phase("p", "Running")
    await cluster.until_phase("long", "Running")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=unverified)) as session:
        base = f"https://127.0.0.1:{port}/containerLogs/default/"

        async def fetch(query):
            async with session.get(base + query) as answer:
                return answer.status, await answer.text()

        async with asyncio.timeout(60):
            while await fetch("long/c?tailLines=1") != (200, "two\n"):
                await asyncio.sleep(0.05)
        assert await fetch("p/c?follow=true") == (200, "one\ntwo\np\n")
        assert (await fetch("p/c?timestamps=true&tailLines=1"))[1].endswith("Z p\n")
        assert (await fetch("p/c?previous=true"))[0] == 400
        assert (await fetch("p/c?tailLines=x"))[0] == 400
        assert await fetch("p/c?limitBytes=3") == (200, "one")


async def test_deleted_pod_is_removed_after_its_containers_end(cluster):
    await start(cluster)
    await cluster.run_pod("p", "trap 'sleep 0.3; exit 0' TERM; sleep 100")
    await cluster.until_phase("p", "Running")
    await cluster.client.delete(PODS, Key("default", "p"), grace_seconds=20)
    await cluster.until("p", None)
    last = orjson.loads(status_writes(cluster, "p")[-1].current.data)
    assert last["status"]["phase"] == "Succeeded"


async def test_finished_or_force_deleted_pod_is_not_deleted_again_by_the_node(cluster):
    await start(cluster)
    for name, script in (("over", "exit 0"), ("runs", "sleep 100"), ("after", "sleep 100")):
        await cluster.run_pod(name, script)
    await cluster.until_phase("over", "Succeeded")
    await cluster.until_phase("runs", "Running")
    await cluster.until_phase("after", "Running")
    cluster.server.forget_requests()
    await cluster.client.delete(PODS, Key("default", "over"))
    await cluster.client.delete(PODS, Key("default", "runs"), grace_seconds=0)
    await cluster.client.delete(PODS, Key("default", "after"), grace_seconds=1)
    await cluster.until("after", None)
    assert cluster.server.requests()["delete", "pods"] == 4, "three of ours, and one of the node that had to stop a container"


async def test_pod_waits_until_its_config_map_exists(cluster):
    await start(cluster)
    source = {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}
    await cluster.run_pod("p", "sleep 100", container={"env": [source]})
    assert await config_error(cluster, "p") == 'configmap "cm" not found'
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"k": "v"}}, namespace="default")
    await cluster.until_phase("p", "Running")


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param({"envFrom": [{"configMapRef": {"name": "absent"}}]}, 'configmap "absent" not found', id="config-map"),
        pytest.param({"envFrom": [{"secretRef": {"name": "absent"}}]}, 'secret "absent" not found', id="secret"),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}}]},
            "couldn't find key k in ConfigMap default/there",
            id="key",
        ),
    ],
)
async def test_container_whose_configuration_is_absent_waits_as_on_a_kubelet(cluster, container, want):
    await start(cluster)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "there"}}, namespace="default")
    await cluster.run_pod("p", "sleep 2", container=container)
    assert await config_error(cluster, "p") == want


async def test_container_runs_without_optional_configuration(cluster):
    await start(cluster)
    optional = {"name": "absent", "optional": True}
    key = {"name": "X", "valueFrom": {"secretKeyRef": {**optional, "key": "k"}}}
    volumes = [{"name": "v", "configMap": optional}, {"name": "w", "secret": {"secretName": "absent", "optional": True}}]
    sources = {"env": [key], "envFrom": [{"configMapRef": optional}, {"secretRef": optional}]}
    await cluster.run_pod("p", "sleep 100", container=sources, volumes=volumes)
    await cluster.until_phase("p", "Running")


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param({"configMap": {"name": "absent"}}, 'configmap "absent" not found', id="config-map"),
        pytest.param({"secret": {"secretName": "absent"}}, 'secret "absent" not found', id="secret"),
        pytest.param({"projected": {"sources": [{"secret": {"name": "absent"}}]}}, 'secret "absent" not found', id="projected"),
        pytest.param(
            {"configMap": {"name": "there", "items": [{"key": "k", "path": "k"}]}},
            "references non-existent config key: k",
            id="key",
        ),
    ],
)
async def test_pod_whose_volume_has_no_content_stays_in_creation_with_an_event(cluster, volume, want):
    await start(cluster)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "there"}}, namespace="default")
    await cluster.run_pod("p", "sleep 2", volumes=[{"name": "v", **volume}])
    async with asyncio.timeout(30):
        while not (told := [e for e in (await cluster.client.list(EVENTS))[0] if e["reason"] == "FailedMount"]):
            await asyncio.sleep(0.05)
    assert told[0]["message"] == f'MountVolume.SetUp failed for volume "v" : {want}'
    assert _waiting(await cluster.until("p", _waiting)) == {"reason": "ContainerCreating"}


async def config_error(cluster, name):
    """What is said of the configuration of a container that cannot be created."""
    pod = await cluster.until(name, lambda pod: _waiting(pod).get("reason") == "CreateContainerConfigError")
    return _waiting(pod)["message"]


async def test_pod_exceeding_the_free_cpu_of_its_node_fails_with_out_of_cpu(cluster):
    await cluster.start(nodes="1", cpu="1")
    await ready_nodes(cluster, 1)
    need = {"resources": {"requests": {"cpu": "600m"}}}
    await cluster.run_pod("a", "sleep 100", container=need)
    await cluster.until_phase("a", "Running")
    await cluster.run_pod("b", "sleep 100", container=need)
    refused = await cluster.until_phase("b", "Failed")
    assert refused["status"]["reason"] == "OutOfcpu"
    assert len(status_writes(cluster, "b")) == 1
    await cluster.client.delete(PODS, Key("default", "a"), grace_seconds=0)
    await cluster.run_pod("c", "sleep 100", container=need)
    await cluster.until_phase("c", "Running")


async def test_running_pods_continue_after_a_restart_of_the_node_service(cluster):
    await start(cluster)
    await cluster.run_pod("ends-while-away", "sleep 1")
    await cluster.run_pod("goes-on", "sleep 100")
    before = await cluster.until_phase("goes-on", "Running")
    await cluster.until_phase("ends-while-away", "Running")
    await cluster.stop()
    await asyncio.sleep(1)
    await cluster.start()
    ended = await cluster.until_phase("ends-while-away", "Succeeded")
    assert len(status_writes(cluster, "goes-on")) == 1
    assert len(status_writes(cluster, "ends-while-away")) == 2
    after = await cluster.get("goes-on")
    assert after["status"] == before["status"]
    assert ended["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_pod_logs_survive_a_restart_of_the_node_service(cluster):
    await start(cluster)
    await cluster.run_pod("over", "echo done")
    await cluster.run_pod("waits", "echo no", metadata={"annotations": {"nodes.pyroclast.dev/start-delay": "1m"}})
    await cluster.until_phase("over", "Succeeded")
    await cluster.until("waits", lambda pod: pod["status"].get("containerStatuses"))
    await cluster.stop()
    await cluster.start()
    async with asyncio.timeout(60):
        while True:
            try:
                assert await log_of(cluster, "over") == b"done\n"
                break
            except KubeError:
                await asyncio.sleep(0.05)
    with pytest.raises(KubeError, match="is waiting to start: ContainerCreating"):
        await log_of(cluster, "waits")


async def test_pod_log_survives_deletion_of_its_config_map_until_a_restart(cluster):
    await start(cluster)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "words"}, "data": {"say": "hello"}}, namespace="default")
    await cluster.run_pod("p", "echo $say", container={"envFrom": [{"configMapRef": {"name": "words"}}]})
    await cluster.until_phase("p", "Succeeded")
    await cluster.client.delete(CONFIG_MAPS, Key("default", "words"))
    assert await log_of(cluster, "p") == b"hello\n"
    await cluster.stop()
    await cluster.start()
    async with asyncio.timeout(60):
        while b"was lost when the nodes were restarted" not in await _told(cluster, "p"):
            await asyncio.sleep(0.05)


async def test_pod_whose_config_map_is_gone_ends_after_a_restart_when_it_is_deleted(cluster):
    await start(cluster)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "words"}, "data": {"say": "hello"}}, namespace="default")
    await cluster.run_pod("p", "echo $say; sleep 100", container={"envFrom": [{"configMapRef": {"name": "words"}}]})
    await cluster.until_phase("p", "Running")
    await cluster.client.delete(CONFIG_MAPS, Key("default", "words"))
    await cluster.stop()
    await cluster.start()
    await cluster.client.delete(PODS, Key("default", "p"))
    await cluster.until("p", None, seconds=20)


async def _told(cluster, name):
    """The log, or what is said instead of it."""
    try:
        return await log_of(cluster, name)
    except KubeError as error:
        return str(error).encode()


async def log_of(cluster, name):
    return await cluster.client.request("GET", f"/api/v1/namespaces/default/pods/{name}/log", deadline=Deadline.after(1.0))


async def test_failed_status_write_is_retried(cluster):
    await start(cluster)
    cluster.server.fail_next("patch", "pods", 500)
    cluster.server.fail_next("patch", "pods", 409)
    await cluster.run_pod("p", "sleep 0.2")
    await cluster.until_phase("p", "Succeeded")


async def test_not_ready_annotation_taints_the_node_until_ready_again(cluster):
    await start(cluster)
    await annotate(cluster, NODES, Key("", "node-1"), state="not-ready")
    node = await node_until(cluster, "node-1", lambda n: _ready(n) == "False" and n["spec"].get("taints"))
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    await annotate(cluster, NODES, Key("", "node-1"), state="ready")
    await node_until(cluster, "node-1", lambda n: _ready(n) == "True" and not n["spec"].get("taints"))


async def test_pod_on_a_lost_node_stays_pending_until_the_node_returns(cluster):
    await start(cluster)
    await annotate(cluster, NODES, Key("", "node-1"), state="lost")
    await node_until(cluster, "node-1", lambda n: _ready(n) == "Unknown")
    await cluster.run_pod("p", "sleep 0.1", node="node-1")
    await cluster.run_pod("q", "sleep 0.1", node="node-0")
    await cluster.until_phase("q", "Succeeded")
    assert (await cluster.get("p"))["status"]["phase"] == "Pending"
    await annotate(cluster, NODES, Key("", "node-1"), state="ready")
    await cluster.until_phase("p", "Succeeded")


async def test_pods_of_a_deleted_node_are_deleted(cluster):
    await start(cluster)
    await cluster.run_pod("p", "sleep 100", node="node-1")
    await cluster.until_phase("p", "Running")
    await cluster.client.delete(NODES, Key("", "node-1"))
    await cluster.until("p", None)
    await asyncio.sleep(0.2)
    nodes, _ = await cluster.client.list(NODES)
    assert [n["metadata"]["name"] for n in nodes] == ["node-0"]


async def test_pod_bound_to_a_missing_node_is_deleted(cluster, monkeypatch):
    monkeypatch.setattr(keeper, "_ORPHAN_SECONDS", 0.3)
    await start(cluster)
    await cluster.client.delete(NODES, Key("", "node-1"))
    await cluster.run_pod("p", "sleep 100", node="node-1")
    await cluster.until("p", None)


async def test_pod_bound_before_its_node_exists_runs_when_the_node_is_created(cluster):
    await start(cluster)
    await cluster.run_pod("p", "sleep 100", node="late")
    await cluster.run_pod("q", "sleep 100")
    await cluster.until_phase("q", "Running")  # the service has seen the other before
    node = {"metadata": {"name": "late", "annotations": {"nodes.pyroclast.dev/simulated": "true"}}}
    await cluster.client.create(NODES, node)
    await cluster.until_phase("p", "Running")


async def test_simulated_node_created_by_a_user_runs_pods(cluster):
    await start(cluster)
    annotations = {"nodes.pyroclast.dev/simulated": "true"}
    status = {"capacity": {"cpu": "2", "memory": "1Gi", "pods": "5"}}
    await cluster.client.create(NODES, {"metadata": {"name": "own", "annotations": annotations}, "status": status})
    node = await node_until(cluster, "own", lambda n: _ready(n) == "True")
    assert node["status"]["allocatable"]["cpu"] == "2"
    await cluster.run_pod("p", "sleep 0.1", node="own")
    await cluster.until_phase("p", "Succeeded")


async def test_an_annotation_fails_a_pod_that_runs(cluster):
    await start(cluster)
    await cluster.run_pod("p", "sleep 100")
    await cluster.until_phase("p", "Running")
    await annotate(cluster, PODS, Key("default", "p"), fail_after="0s", exit_code="9")
    pod = await cluster.until_phase("p", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 9


async def test_terminal_phase_written_by_another_client_is_kept(cluster):
    await start(cluster)
    await cluster.run_pod("p", "sleep 0.5")
    await cluster.until_phase("p", "Running")
    await cluster.client.patch(
        PODS, Key("default", "p"), {"status": {"phase": "Failed"}}, PatchKind.STRATEGIC, subresource="status"
    )
    await asyncio.sleep(0.8)
    assert (await cluster.get("p"))["status"]["phase"] == "Failed"


async def test_terminal_phase_is_written_again_when_the_api_server_reverts_it(cluster):
    await start(cluster)
    await cluster.run_pod("p", "sleep 0.3")
    await cluster.until_phase("p", "Succeeded")
    before = {"status": {"phase": "Running"}}  # all that an API server lets anybody write back
    patched = await cluster.client.patch(PODS, Key("default", "p"), before, PatchKind.MERGE, subresource="status")
    assert patched["status"]["phase"] == "Running"
    await cluster.until_phase("p", "Succeeded")


@pytest.mark.parametrize("count", [60])
async def test_every_pod_has_an_address_of_its_own(cluster, count):
    await start(cluster)
    await asyncio.gather(*(cluster.run_pod(f"p{i}", "sleep 100", node=f"node-{i % 2}") for i in range(count)))
    pods = [await cluster.until_phase(f"p{i}", "Running") for i in range(count)]
    assert len({pod["status"]["podIP"] for pod in pods}) == count


async def test_addresses_of_ended_pods_are_reused(cluster):
    await start(cluster, nodes="2", pod_network="10.9.0.0/29")
    for number in range(8):
        await cluster.run_pod(f"p{number}", "true")
        await cluster.until_phase(f"p{number}", "Succeeded")


async def test_pod_waits_for_an_address_and_starts_when_one_is_released(cluster):
    await start(cluster, nodes="2", pod_network="10.9.0.0/30")
    for number in range(2):
        await cluster.run_pod(f"p{number}", "sleep 600")
        await cluster.until_phase(f"p{number}", "Running")
    await cluster.run_pod("waits", "sleep 600")
    await cluster.run_pod("ends", "sleep 600", node="node-1")
    await cluster.client.delete(PODS, Key("default", "p0"), grace_seconds=0)
    await cluster.client.delete(PODS, Key("default", "ends"), grace_seconds=0)
    assert (await cluster.until_phase("waits", "Running"))["status"]["podIP"].startswith("10.9.0.")


def _field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _waiting(pod):
    statuses = pod["status"].get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("waiting") or {}


def _ready(node):
    return next((c["status"] for c in node["status"].get("conditions", ()) if c["type"] == "Ready"), None)
