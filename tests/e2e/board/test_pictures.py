"""Makes the pictures of the documentation: the web page over a cluster in which two teams compete and a flow has failed.

Left out unless PYROCLAST_SCREENSHOTS names a folder: `PYROCLAST_SCREENSHOTS=docs/how-to/board`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.board import shows
from tests.e2e.support.cluster import Cluster, wait_until
from tests.unit.board.browser import running_browser

pytestmark = [
    pytest.mark.skipif("PYROCLAST_SCREENSHOTS" not in os.environ, reason="PYROCLAST_SCREENSHOTS names no folder"),
    pytest.mark.timeout(300),
]


def queue(name: str, **spec: Any) -> str:
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    return json.dumps(body)


def gang(name: str, team: str, cpu: str, replicas: int, seconds: int) -> str:
    body = json.loads(job(name, command=["sleep", str(seconds)], replicas=replicas, queue=team))
    (container,) = body["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["resources"]["requests"] = {"cpu": cpu, "memory": "1Gi"}
    return json.dumps(body)


def flow(namespace: str) -> list[str]:
    """Data is fetched and prepared, two models are trained, one of which fails."""
    commands = {"fetch": "sleep 3", "prepare": "sleep 5", "train-small": "sleep 2; exit 1", "train-large": "sleep 600"}
    commands |= {"compare": "sleep 1", "publish": "sleep 1"}
    wants = {"prepare": ["fetch"], "train-small": ["prepare"], "train-large": ["prepare"]}
    wants |= {"compare": ["train-small", "train-large"], "publish": ["compare"]}
    templates = []
    for name, command in commands.items():
        body = json.loads(job(name, command=["sh", "-c", command]))
        body |= {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate"}
        templates.append(json.dumps(body))
    entries = [{"name": name, **({"dependsOn": {"targets": wants[name]}} if name in wants else {})} for name in commands]
    spec = {"flows": entries, "jobRetainPolicy": "retain"}
    metadata = {"name": "nightly", "namespace": namespace}
    return [
        *templates,
        json.dumps({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": metadata, "spec": spec}),
    ]


async def test_pictures_for_the_documentation(cluster: Cluster) -> None:
    namespace = "vision"
    cluster.make_namespace(namespace)

    def create(text: str) -> None:
        cluster.create(text, namespace)

    def phase(name: str) -> str:
        return str(cluster.get("vcjob", name, "-n", namespace).get("status", {}).get("state", {}).get("phase", ""))

    nodes = sorted(each["metadata"]["name"] for each in cluster.get("nodes")["items"])
    for number, node in enumerate(nodes):
        cluster.kubectl("label", "node", node, f"rack=rack-{number // 2}", "--overwrite")
    create(queue("research", weight=1, deserved={"cpu": "8"}, capability={"cpu": "16"}))
    create(queue("production", weight=1, deserved={"cpu": "16"}, capability={"cpu": "24"}, guarantee={"resource": {"cpu": "8"}}))
    create(gang("sweep-1", "research", "4", 2, 900))
    create(gang("serve", "production", "2", 4, 900))
    wait_until(lambda: phase("sweep-1") == "Running" and phase("serve") == "Running", "the first gangs to run")
    create(gang("sweep-2", "research", "2", 3, 900))
    wait_until(lambda: phase("sweep-2") == "Running", "the queue to borrow")
    for text in flow(namespace):
        create(text)
    create(gang("train-llm", "research", "4", 4, 600))
    create(gang("evaluate", "research", "2", 2, 60))
    create(gang("too-wide", "research", "9", 1, 60))
    uid = cluster.get("vcjob", "train-llm", "-n", namespace)["metadata"]["uid"]
    shows(cluster, f"/jobs/{uid}", "Why it waits", "Position")
    nightly = cluster.get("jobflow", "nightly", "-n", namespace)["metadata"]["uid"]
    shows(cluster, f"/flows/{nightly}", "train-small: Failed")
    serving = cluster.get("vcjob", "serve", "-n", namespace)["metadata"]["uid"]
    url = cluster.get("configmap", "pyroclast-board", "-n", "pyroclast-system")["data"]["url"]
    paths = {"overview": "/", "queues": "/queues", "jobs": f"/jobs?namespace={namespace}", "job": f"/jobs/{uid}"}
    paths |= {
        "gang": f"/jobs/{serving}",
        "flow": f"/flows/{nightly}",
        "nodes": "/nodes?resource=cpu&by=rack",
        "history": "/history",
    }
    folder = Path(os.environ["PYROCLAST_SCREENSHOTS"])
    async with running_browser() as browser:
        for scheme in ("light", "dark"):
            await browser.emulate(scheme=scheme, width=1000, height=640)
            for name, path in paths.items():
                await browser.open(url + path)
                assert await browser.complaints() == [], name
                await browser.picture(folder / f"{name}-{scheme}.png")
