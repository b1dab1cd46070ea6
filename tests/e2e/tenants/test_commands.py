"""A Command does for its user only what the user may do by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.keys import AUTHORIZED_FOR
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.tenants.conftest import Tenants, job_of


def command(action: str, target: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    name = {"generateName": "command-", **metadata}
    return {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": name, "action": action, "target": target}


@pytest.mark.parametrize("mark", [False, True], ids=["plain", "with a forged mark"])
def test_a_user_closes_no_queue_by_a_command(cluster: Cluster, tenants: Tenants, mark: bool) -> None:
    uid = cluster.get("queue", "default")["metadata"]["uid"]
    marked = {"annotations": {AUTHORIZED_FOR: f"{uid}/CloseQueue"}} if mark else {}
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "default"}
    may_not = f'"{tenants.alice.user}" may not update queues'
    for told, meant in ((may_not, {"uid": uid}), ("target.uid: Required value", {"uid": ""})):
        assert told in tenants.alice.refused(command("CloseQueue", {**target, **meant}, **marked))
    assert cluster.get("queue", "default")["status"]["state"] == "Open"


def test_a_command_with_the_uid_of_another_tenants_job_is_refused(tenants: Tenants) -> None:
    job = tenants.bob.create(job_of("mine"))
    target = {"apiVersion": job["apiVersion"], "kind": "Job", "name": "mine", "uid": job["metadata"]["uid"]}
    assert f"there is no Job {tenants.alice.namespace}/mine" in tenants.alice.refused(command("AbortJob", target))
    tenants.bob.create(command("AbortJob", target))
    wait_until(lambda: tenants.bob.phase("mine") == "Aborted", "Bob's own Command")
