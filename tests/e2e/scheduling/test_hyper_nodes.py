"""HyperNodes are discovered from the labels of nodes and from a UFM, and their nodes are counted."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.e2e.support.cluster import Cluster, wait_until

SYSTEM = "pyroclast-system"
NAME = "pyroclast-controller-configmap"


def create(cluster: Cluster, kind: str, name: str, *, namespace: str = "", **body: object) -> None:
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **body}
    cluster.kubectl("apply", *(("-n", namespace) if namespace else ()), "-f", "-", stdin=json.dumps(manifest))


def configure(cluster: Cluster, *sources: dict[str, object]) -> None:
    text = json.dumps({"networkTopologyDiscovery": [{**source, "enabled": True} for source in sources]})
    create(cluster, "ConfigMap", NAME, namespace=SYSTEM, data={"volcano-controller.conf": text})


def there(cluster: Cluster, source: str) -> list[tuple[int, int]]:
    """Tier and number of nodes or HyperNodes of what a source found."""
    items = cluster.get("hypernodes", "-l", f"volcano.sh/network-topology-source={source}")["items"]
    return sorted((item["spec"]["tier"], item.get("status", {}).get("nodeCount", 0)) for item in items)


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[list[str]]:
    """Nodes of no use but to have labels, so that nothing else is disturbed; all that is discovered goes at the end."""
    names = [f"labelled-{secrets.token_hex(3)}" for _ in range(3)]
    for name, rack in zip(names, "abb", strict=True):
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"e2e-rack": rack, "e2e-row": "r"}}}
        cluster.create(json.dumps({**manifest, "spec": {"unschedulable": True}}))
    yield names
    configure(cluster)
    cluster.kubectl("delete", "node", *names, "--ignore-not-found")
    cluster.kubectl("delete", "hypernodes", "--all")


def test_hypernodes_are_discovered_from_node_labels_and_follow_node_changes(cluster: Cluster, nodes: list[str]) -> None:
    tiers = [{"nodeLabel": "e2e-row"}, {"nodeLabel": "e2e-rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    configure(cluster, {"source": "label", "config": {"networkTopologyTypes": {"e2e": tiers}}})
    wait_until(lambda: there(cluster, "label") == [(1, 1), (1, 2), (2, 2)], "a HyperNode for each rack and one for the row")
    cluster.kubectl("label", "node", nodes[1], "e2e-rack=a", "--overwrite")
    cluster.kubectl("delete", "node", nodes[2])
    wait_until(lambda: there(cluster, "label") == [(1, 2), (2, 1)], "the HyperNodes to follow the nodes")


class _Ufm(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") == "Basic dTpw" and self.path == "/ufmRest/resources/ports"
        ports = [{"description": "Computer", "system_name": name, "peer_node_name": leaf} for name, leaf in ("ax", "bx", "cy")]
        body = json.dumps(ports).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not into the output of the tests."""


def test_hypernodes_are_discovered_from_a_ufm_server(cluster: Cluster, nodes: list[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Ufm) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        create(cluster, "Secret", "e2e-ufm", namespace=SYSTEM, stringData={"username": "u", "password": "p"})
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        reference = {"secretRef": {"name": "e2e-ufm", "namespace": SYSTEM}}
        configure(cluster, {"source": "ufm", "interval": "1s", "credentials": reference, "config": {"endpoint": endpoint}})
        wait_until(lambda: there(cluster, "ufm") == [(1, 1), (1, 2), (2, 2)], "two leaves and a spine")
        server.shutdown()
