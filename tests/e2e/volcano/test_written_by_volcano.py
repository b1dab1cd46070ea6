"""Objects that Volcano's programs have written go on with ours, and go back: nothing is restarted, made twice or lost.

Only Commands wait until they are made again: nobody checked whether their users may do what they order.

Volcano's own programs are left out, as they cannot be built in this project's CI: the cases are what they wrote elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.crds import KINDS as CUSTOM_KINDS
from pyroclast.api.types import (
    CRDS,
    CRON_JOBS,
    HYPER_NODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_GROUPS,
    QUEUES,
    VALIDATING_WEBHOOKS,
    Key,
    ResourceType,
)
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone.installation import release
from tests.e2e.faults.test_faults import pods_created_twice
from tests.e2e.faults.test_restore import embedded, real
from tests.e2e.support.audit import Audit
from tests.e2e.support.cluster import Cluster, kubectl_is_there, started, wait_until
from tests.volcano.definitions import added, definitions
from tests.volcano.writing import Written, cases, write

NAMESPACE = "default"
KINDS = (JOBS, POD_GROUPS, QUEUES, CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, HYPER_NODES)
CASES: Mapping[str, Any] = {case["name"]: case for case in cases()["jobs"]}
ENDS = {name: case["ends"] for name, case in CASES.items() if "ends" in case} | {"flow-b": "Completed"}
QUEUE_ENDS = {case["name"]: case.get("ends", case["state"]) for case in cases()["queues"]}
PATHS = [path.split(".") for path, _, _ in added()]
SECONDS = 240.0


@pytest.mark.timeout(600)
def test_objects_written_by_volcano_are_continued_and_can_be_returned_to_volcano(control_plane: str, tmp_path: Path) -> None:
    if not kubectl_is_there():
        pytest.skip("kubectl is not on this machine")
    with (real if control_plane == "real" else embedded)(tmp_path / "server") as plane:
        written = asyncio.run(as_volcano_left_it(plane.kubeconfig))
        before = sum(1 for _ in Audit(plane.audit_log, []).events())
        data = ["--data-dir", str(tmp_path / "data"), "--kubeconfig", str(plane.kubeconfig), "--nodes", "4"]
        data.append("--no-place-before-pods")  # as takeover writes it
        with started(control_plane, plane.kubeconfig, plane.audit_log, data) as cluster:
            make_commands_again(cluster)
            check_what_became_of_it(cluster, written, before)
        asyncio.run(check_the_way_back(plane.kubeconfig))


async def as_volcano_left_it(kubeconfig: Path) -> Written:
    """Volcano's definitions and objects, and the Leases of programs that have ended."""
    async with Client(load_config(str(kubeconfig))) as client:
        for definition in definitions():
            await client.create(CRDS, definition)
        async with asyncio.timeout(60):
            while not all([await is_served(client, kind) for kind in KINDS]):
                await asyncio.sleep(0.1)
        await client.create(NAMESPACES, {"metadata": {"name": "volcano-system"}})
        for name in ("volcano", "vc-controller-manager"):
            spec = {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "2025-01-01T00:00:00.000000Z"}
            await client.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace="volcano-system")
        return await write(client, NAMESPACE)


async def is_served(client: Client, kind: ResourceType) -> bool:
    try:
        await client.list(kind)
    except NotFound:
        return False
    return True


def make_commands_again(cluster: Cluster) -> None:
    """The Commands that Volcano left wait, and an Event on each says so; made again, admission checks them."""
    left = {name_of(each): each for each in items(cluster, "commands")}
    ordered = [case["command"] for case in (*cases()["jobs"], *cases()["queues"]) if "command" in case]
    assert sorted(each["action"] for each in left.values()) == sorted(ordered)
    wait_until(lambda: told_to_wait(cluster) == left.keys(), "an Event on each Command")
    assert {name_of(each): each["metadata"]["uid"] for each in items(cluster, "commands")} == {
        name: each["metadata"]["uid"] for name, each in left.items()
    }
    for name, each in left.items():
        cluster.kubectl("delete", "commands.bus.volcano.sh", name, "-n", NAMESPACE)
        kept = {field: each["metadata"][field] for field in ("name", "ownerReferences") if field in each["metadata"]}
        cluster.create(json.dumps({**each, "metadata": kept}), NAMESPACE)


def told_to_wait(cluster: Cluster) -> set[str]:
    """The Commands with an Event that says that they wait, and what to do."""
    events = cluster.get("events", "-n", NAMESPACE, "--field-selector", "involvedObject.kind=Command,reason=CommandIssued")
    return {
        each["involvedObject"]["name"]
        for each in events["items"]
        if "waits: admission has not checked" in each["message"] and "create it again" in each["message"]
    }


def check_what_became_of_it(cluster: Cluster, written: Written, before: int) -> None:
    wanted: dict[str, Any] = {"jobs": ENDS, "queues": QUEUE_ENDS, "flows": {"flow": "Succeed", "done": "Succeed"}}

    def differences() -> dict[str, Any]:
        found = {
            "jobs": {name_of(each): phase_of(each) for each in items(cluster, "vcjob")},
            "queues": {name_of(each): each["status"].get("state") for each in items(cluster, "queues")},
            "flows": {name_of(each): each["status"]["state"]["phase"] for each in items(cluster, "jobflows")},
        }
        return {
            f"{kind} {name}": (found[kind].get(name), phases.get(name))
            for kind, phases in wanted.items()
            for name in {**phases, **found[kind]}
            if found[kind].get(name) != phases.get(name)
        }

    try:
        wait_until(lambda: not differences(), "all to end", seconds=SECONDS)
    except AssertionError:
        assert differences() == {}
    assert pods_created_twice(cluster, NAMESPACE, since=before) == []
    assert writes(cluster, {"create"}, before) == made()
    gone = {f"{name}-{pod}" for name, case in CASES.items() for pod in case.get("deletes", ())}
    assert writes(cluster, {"delete"}, before) == gone
    there = {name_of(pod): pod["metadata"]["uid"] for pod in items(cluster, "pods")}
    stay = {name: uid for name, uid in written.pods.items() if name not in gone and not name.startswith("expired")}
    assert {name: there.get(name) for name in stay} == stay
    check_details(cluster, written, before)


def check_details(cluster: Cluster, written: Written, before: int) -> None:
    jobs = {name_of(each): each for each in items(cluster, "vcjob")}
    for name, case in CASES.items():
        for field, value in case.get("expect", {}).items():
            assert (name, field, jobs[name]["status"].get(field)) == (name, field, value)
    waiting = {
        f"{name}-{pod}" for name, case in CASES.items() for pod, state in case.get("pods", {}).items() if state == "Waiting"
    }
    waiting = {*waiting, *made(), "not-yet"} - {"pending-before-delay-a-0"}
    assert bound(cluster, before) == Counter(waiting), "each pod gets a node once, and none that had one"
    # an empty patch, by which the job controller reads them, changes nothing
    assert writes(cluster, {"create", "update"}, before, "secrets") == set(), "the keys of a running Job are kept"
    pod = cluster.get("pod", "devices-a-0", "-n", NAMESPACE)
    assert CASES["devices"]["pod_annotations"].items() <= pod["metadata"]["annotations"].items()
    groups = {name_of(each) for each in items(cluster, "podgroups.scheduling.volcano.sh")}
    uids = {f"{name}-{job['metadata']['uid']}" for name, job in jobs.items()}
    assert {name for name in groups if not name.startswith("podgroup-")} <= uids
    assert not items(cluster, "commands")
    status = cluster.get("cronjobs.batch.volcano.sh", "nightly", "-n", NAMESPACE)["status"]
    wait_until(lambda: not cron_status(cluster).get("active"), "the CronJob to see the end of its Job")
    assert status["lastScheduleTime"] == cron_status(cluster)["lastScheduleTime"], "no further Job was due"
    assert cluster.get("hypernodes", "rack")["status"]["nodeCount"] == 2


def cron_status(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("cronjobs.batch.volcano.sh", "nightly", "-n", NAMESPACE)["status"]
    return found


def made() -> set[str]:
    """The pods that our programs must create."""
    flows = {pod for flow in cases()["jobflows"] for pod in flow.get("makes", ())}
    return flows | {f"{name}-{pod}" for name, case in CASES.items() for pod in case.get("makes", ())}


def writes(cluster: Cluster, verbs: Collection[str], before: int, resource: str = "pods") -> set[str]:
    """The objects that the job controller wrote so, with success."""
    return {
        event["objectRef"]["name"]
        for event in islice(cluster.audit.events(), before, None)
        if event["verb"] in verbs
        and event.get("objectRef", {}).get("resource") == resource
        and not event["objectRef"].get("subresource")
        and event["responseStatus"]["code"] < 300
        and "dryRun" not in event["requestURI"]
        and "pyroclast-controllers" in event["user"]["username"]
    }


def bound(cluster: Cluster, before: int) -> Counter[str]:
    return Counter(
        event["objectRef"]["name"]
        for event in islice(cluster.audit.events(), before, None)
        if event.get("objectRef", {}).get("subresource") == "binding" and event["responseStatus"]["code"] == 201
    )


def items(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    found = cluster.get(kind) if kind == "queues" else cluster.get(kind, "-n", NAMESPACE)
    return list(found["items"])


def name_of(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["name"])


def phase_of(found: Mapping[str, Any]) -> str:
    return str(found.get("status", {}).get("state", {}).get("phase", ""))


async def check_the_way_back(kubeconfig: Path) -> None:
    """Volcano's definitions are installed again: what we have added goes without harm, and every object can be written."""
    assert await asyncio.to_thread(lambda: asyncio.run(release(kubeconfig, print))) == 0
    async with Client(load_config(str(kubeconfig))) as client:
        for hooks in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):  # as `helm uninstall` does
            for each in (await client.list(hooks))[0]:
                await client.delete(hooks, Key("", name_of(each)))
        ours = {kind: {name_of(each): each for each in (await client.list(kind))[0]} for kind in KINDS}
        assert any("observedGeneration" in each["status"] for each in ours[JOBS].values())
        for definition in definitions():
            found = await client.get(CRDS, Key("", name_of(definition)))
            await client.update(CRDS, {**found, "spec": definition["spec"]})
        deadline = time.monotonic() + 60  # an API server takes its time with new definitions
        for kind in KINDS:
            for name, each in ours[kind].items():
                wanted = content(_pruned(kind.kind, each))
                while (found := content(await rewritten(client, kind, each))) != wanted and time.monotonic() < deadline:
                    await asyncio.sleep(0.5)
                assert found == wanted, (kind.kind, name)


async def rewritten(client: Client, kind: ResourceType, each: Mapping[str, Any]) -> dict[str, Any]:
    """The object after a write as Volcano's programs make them: read, and put back whole."""
    key = Key(each["metadata"].get("namespace", ""), name_of(each))
    found = await client.get(kind, key)
    found["metadata"].setdefault("annotations", {})["example.com/written"] = str(time.monotonic())
    written = await client.update(kind, found)
    return (
        await client.update(kind, found | {"metadata": written["metadata"]}, subresource="status")
        if has_status(kind)
        else written
    )


def has_status(kind: ResourceType) -> bool:
    return any(each.resource == kind and each.has_status for each in CUSTOM_KINDS)


def content(found: Mapping[str, Any]) -> dict[str, Any]:
    return {part: value for part, value in found.items() if part != "metadata"}


def _pruned(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    for path in PATHS:
        if path[0] == kind:
            for holder in _holders(found, path[1:-1]):
                holder.pop(path[-1], None)
    return found


def _holders(value: Any, path: list[str]) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _holders(each, path)
    elif isinstance(value, dict) and not path:
        yield value
    elif isinstance(value, dict) and path[0] == "*":
        for each in value.values():
            yield from _holders(each, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _holders(value[path[0]], path[1:])
