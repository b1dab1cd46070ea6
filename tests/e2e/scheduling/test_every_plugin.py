"""The scheduler with every action and every plugin at once, taken up while it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from pyroclast.api.keys import QUEUE_ALLOCATION_GATE
from pyroclast_scheduler import registry
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.configuration import configured

ACTIONS = "enqueue, elect, allocate, reserve, backfill, preempt, reclaim, gangpreempt, gangreclaim, shuffle"
APART = {"proportion", "extender"}
"""Not beside capacity; and what needs a service of another."""
ARGUMENTS = {"nodegroup": "    arguments: {strict: false}\n"}  # nodes of no group take pods too
REASON = re.compile(r"quota insufficient")


@pytest.fixture
def every_plugin(cluster: Cluster) -> Iterator[None]:
    """All of them."""
    names = sorted(registry.plugins().keys() - APART)
    entries = "".join(f"  - name: {name}\n{ARGUMENTS.get(name, '')}" for name in names)
    with configured(cluster, f'actions: "{ACTIONS}"\ntiers:\n- plugins:\n{entries}'):
        yield


def test_every_registered_action_is_configured() -> None:
    assert set(ACTIONS.split(", ")) == registry.actions().keys()


@pytest.mark.usefixtures("every_plugin")
def test_gang_within_quota_completes_and_one_beyond_waits_with_every_plugin_enabled(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "quota", "small", "-n", namespace, "--hard=requests.cpu=2")
    wait_until(lambda: cluster.get("quota", "small", "-n", namespace).get("status"), "the quota to be counted")
    cluster.create(job("fits", command=["true"], replicas=4), namespace)
    cluster.create(gated(), namespace)
    cluster.create(job("large", command=["true"], replicas=30), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", "vcjob/fits", "--timeout=60s")
    wait_until(lambda: REASON.search(str(events(cluster, namespace))), "the large Job's PodGroup to say what it lacks")
    assert not cluster.get("pods", "-n", namespace, "-l", "volcano.sh/job-name=large")["items"]


def gated() -> str:
    """A Job whose pods wait behind the gate of their queue."""
    manifest = json.loads(job("gated", command=["true"], replicas=2))
    template = manifest["spec"]["tasks"][0]["template"]
    template["metadata"] = {"annotations": {QUEUE_ALLOCATION_GATE: "true"}}
    template["spec"]["schedulingGates"] = [{"name": QUEUE_ALLOCATION_GATE}]
    return json.dumps(manifest)


def events(cluster: Cluster, namespace: str) -> list[str]:
    items = cluster.get("events", "-n", namespace, "--field-selector", "involvedObject.kind=PodGroup")["items"]
    return [item["message"] for item in items]
