"""HyperNodes on the embedded API server, discovered from labels and from a UFM that listens on the loopback."""

import base64

import pytest
from aiohttp import web

from pyroclast.api.types import CONFIG_MAPS, EVENTS, HYPER_NODES, NODES, SECRETS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_job_controller.hypernode_discovery import UfmError, fetch_ports, login_of

from .cluster import NS, running_cluster

NAME = "volcano-controller-configmap"
LABELS = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config: {networkTopologyTypes: {net: [{nodeLabel: row}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}
"""


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        await running.kill()
        await running.start(leader_elect_resource_namespace=NS)
        yield running


class Ufm:
    """Answers as UFM does; `status` and `body` may be set."""

    def __init__(self):
        self.status, self.body, self.asked = 200, [], []

    async def ports(self, request):
        self.asked.append(request.headers["Authorization"])
        return web.json_response(self.body, status=self.status)


@pytest.fixture
async def ufm(aiohttp_server):
    fake = Ufm()
    app = web.Application()
    app.router.add_get("/ufmRest/resources/ports", fake.ports)
    fake.server = await aiohttp_server(app)
    fake.endpoint = f"http://127.0.0.1:{fake.server.port}"
    return fake


async def node(cluster, name, **labels):
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})


async def configure(cluster, text):
    meta = {"name": NAME, "namespace": NS}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"volcano-controller.conf": text}}
    await cluster.client.create(CONFIG_MAPS, body)


async def there(cluster):
    found = {}
    for item in (await cluster.client.list(HYPER_NODES))[0]:
        names = [member["selector"].get("exactMatch", {}).get("name") for member in item["spec"]["members"]]
        found[item["metadata"]["name"]] = (item["spec"]["tier"], names, (item.get("status") or {}).get("nodeCount", 0))
    return found


async def shape(cluster):
    """Tiers, numbers of members and counts, without names that follow from labels."""
    return sorted((tier, len(names), count) for tier, names, count in (await there(cluster)).values())


def reaches(cluster, look, want):
    async def same():
        return await look(cluster) == want

    return cluster.until(same)


async def test_node_count_of_a_hypernode_follows_created_and_deleted_nodes(cluster):
    await node(cluster, "n0", rack="a")
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}}]
    body = {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": "h"}}
    await cluster.client.create(HYPER_NODES, {**body, "spec": {"tier": 1, "members": members}})
    await reaches(cluster, there, {"h": (1, [None], 1)})
    await node(cluster, "n1", rack="a")
    await reaches(cluster, there, {"h": (1, [None], 2)})
    await cluster.client.delete(NODES, Key("", "n0"))
    await reaches(cluster, there, {"h": (1, [None], 1)})


async def test_hypernodes_follow_node_labels_and_are_recreated_when_deleted(cluster):
    for name, rack in (("n0", "a"), ("n1", "b"), ("n2", "b")):
        await node(cluster, name, rack=rack, row="r")
    await configure(cluster, LABELS)
    await reaches(cluster, shape, [(1, 1, 1), (1, 2, 2), (2, 2, 2)])
    names = set(await there(cluster))
    await cluster.client.patch(NODES, Key("", "n1"), {"metadata": {"labels": {"rack": "a"}}}, PatchKind.MERGE)
    await reaches(cluster, shape, [(1, 1, 1), (1, 2, 2), (2, 2, 2)])
    await cluster.client.delete(NODES, Key("", "n2"))
    await reaches(cluster, shape, [(1, 2, 2), (2, 1, 1)])
    assert set(await there(cluster)) < names
    (upper,) = (name for name, (tier, _, _) in (await there(cluster)).items() if tier == 2)
    await cluster.client.delete(HYPER_NODES, Key("", upper))
    await reaches(cluster, shape, [(1, 2, 2), (2, 1, 1)])


async def test_restart_keeps_hypernode_names_and_leaves_foreign_hypernodes_alone(cluster):
    await node(cluster, "n0", rack="a", row="r")
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]
    body = {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": "mine"}}
    await cluster.client.create(HYPER_NODES, {**body, "spec": {"tier": 3, "members": members}})
    await configure(cluster, LABELS)
    await reaches(cluster, shape, [(1, 1, 1), (2, 1, 1), (3, 1, 1)])
    names = set(await there(cluster))
    await cluster.kill()
    cluster.server.forget_requests()
    await cluster.start(leader_elect_resource_namespace=NS)
    await node(cluster, "n1", rack="b", row="r")
    await reaches(cluster, shape, [(1, 1, 1), (1, 1, 1), (2, 2, 2), (3, 1, 1)])
    assert names < set(await there(cluster))
    assert cluster.server.requests()["create", "hypernodes"] == 1


async def test_ufm_is_polled_with_credentials_and_its_hypernodes_stay_while_it_fails(cluster, ufm):
    ufm.body = [{"description": "Computer", "system_name": name, "peer_node_name": leaf} for name, leaf in ("ax", "bx", "cy")]
    data = {"username": base64.b64encode(b"u").decode(), "password": base64.b64encode(b"p").decode()}
    meta = {"name": "s", "namespace": NS}
    await cluster.client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
    source = f"{{source: ufm, enabled: true, interval: 200ms, config: {{endpoint: '{ufm.endpoint}'}}"
    await configure(cluster, f"networkTopologyDiscovery: [{source}, credentials: {{secretRef: {{name: s, namespace: {NS}}}}}}}]")
    want = {"leaf-hn-0": (1, ["a", "b"], 2), "leaf-hn-1": (1, ["c"], 1), "spine-hn": (2, ["leaf-hn-0", "leaf-hn-1"], 2)}
    await reaches(cluster, there, want)
    assert set(ufm.asked) == {"Basic " + base64.b64encode(b"u:p").decode()}
    ufm.status = 500
    asked = len(ufm.asked)

    async def twice():
        return len(ufm.asked) > asked + 1

    await cluster.until(twice)
    assert await there(cluster) == want
    ufm.status, ufm.body = 200, ufm.body[:2]
    await reaches(cluster, there, {"leaf-hn-0": (1, ["a", "b"], 2), "spine-hn": (2, ["leaf-hn-0"], 1)})


async def test_invalid_discovery_configuration_is_reported_in_an_event(cluster):
    await configure(cluster, "networkTopologyDiscovery: [{source: snmp, enabled: true}]")

    async def told():
        events = (await cluster.client.list(EVENTS, NS))[0]
        return [event["message"] for event in events if event["reason"] == "InvalidConfiguration"]

    await cluster.until(told)
    assert "unsupported discoverer type: snmp" in (await told())[0]


LOGIN = "Basic dTpw"


@pytest.mark.parametrize(
    ("status", "body", "want"), [(401, [], "answered 401 Unauthorized"), (200, {"no": "list"}, "is no list of ports")]
)
async def test_invalid_ufm_response_raises_an_error_with_the_reason(ufm, status, body, want):
    ufm.status, ufm.body = status, body
    with pytest.raises(UfmError, match=want):
        await fetch_ports(ufm.endpoint, LOGIN)


async def test_unreachable_ufm_raises_an_error_with_its_address(ufm):
    await ufm.server.close()
    with pytest.raises(UfmError, match=r"127\.0\.0\.1"):
        await fetch_ports(ufm.endpoint, LOGIN)
    with pytest.raises(UfmError, match=r"https://127\.0\.0\.1"):
        await fetch_ports(f"127.0.0.1:{ufm.server.port}", LOGIN)


@pytest.mark.parametrize("data", [{}, {"username": "dQ=="}, {"username": "dQ==", "password": "?"}])
def test_secret_without_valid_credentials_raises_an_error(data):
    with pytest.raises(UfmError):
        login_of({"data": data})
