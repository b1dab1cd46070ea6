"""Each webhook through kubectl: what it gives, and what it refuses in one bullet per field."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_job_controller import selftest
from pyroclast_standalone import installation
from tests.e2e.support.cluster import Cluster, KubectlError, wait_until
from tests.e2e.support.shell import Shell

TASK = {"name": "a", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "busybox:1.37"}]}}}
JDB = {"volcano.sh/jdb-min-available": "50%"}
JOB_SPEC = {"schedulerName": "volcano", "tasks": [TASK]}


def manifest(api_version: str, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> str:
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec})


def job(name: str, **spec: Any) -> str:
    return manifest("batch.volcano.sh/v1alpha1", "Job", name, JOB_SPEC | spec)


REFUSED = {
    "/jobs/validate": (
        job("j", minAvailable=5, plugins={"teleport": []}),
        [
            'The Job "j" is invalid: ',
            "* spec.minAvailable: Invalid value: 5: job 'minAvailable' should not be greater than total replicas in tasks",
            '"teleport": unable to find job plugin: teleport; there are env, hcclrank',
        ],
    ),
    "/cronjobs/validate": (
        manifest("batch.volcano.sh/v1alpha1", "CronJob", "c", {"schedule": "61 * * * *", "jobTemplate": {"spec": JOB_SPEC}}),
        ['The CronJob "c" is invalid: spec.schedule: Invalid value: "61 * * * *"', "numbers go from 0 to 59"],
    ),
    "/podgroups/validate": (
        manifest("scheduling.volcano.sh/v1beta1", "PodGroup", "p", {"minMember": 1, "queue": "nowhere"}),
        ['The PodGroup "p" is invalid: spec.queue: Invalid value: "nowhere": unable to find queue'],
    ),
    "/queues/validate": (
        manifest(
            "scheduling.volcano.sh/v1beta1",
            "Queue",
            "refused",
            {"capability": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "2"}}},
        ),
        ['The Queue "refused" is invalid', "guarantee"],
    ),
    "/hypernodes/validate": (
        manifest(
            "topology.volcano.sh/v1alpha1",
            "HyperNode",
            "refused",
            {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}]},
        ),
        ['The HyperNode "refused" is invalid: spec.members[0].selector.regexMatch.pattern', "missing closing )"],
    ),
    "/jobflows/validate": (
        manifest(
            "flow.volcano.sh/v1alpha1",
            "JobFlow",
            "f",
            {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}}]},
        ),
        ['The JobFlow "f" is invalid: spec.flows[0].dependsOn.targets', "jobflow Flow is not DAG; a → b → a"],
    ),
    "/jobtemplates/validate": (
        manifest("flow.volcano.sh/v1alpha1", "JobTemplate", "t", {**JOB_SPEC, "minAvailable": 5}),
        ['The JobTemplate "t" is invalid: spec.minAvailable: Invalid value: 5'],
    ),
    "/commands/validate": (
        json.dumps(
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"name": "c"},
                "action": "Explode",
                "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1"},
            }
        ),
        ['The Command "c" is invalid: action: Unsupported value: "Explode": supported values: "AbortJob"'],
    ),
    "/pods/validate": (
        manifest(
            "v1",
            "Pod",
            "p",
            {"schedulerName": "volcano", **TASK["template"]["spec"]},  # type: ignore[index]
            annotations={"volcano.sh/jdb-min-available": "50%%"},
        ),
        ['The Pod "p" is invalid: metadata.annotations[volcano.sh/jdb-min-available]: Invalid value: "50%%"'],
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_webhook_refusal_names_each_invalid_field(cluster: Cluster, namespace: str, case: tuple[str, list[str]]) -> None:
    text, want = case
    said = cluster.refused("create", "-n", namespace, "-f", "-", stdin=text)
    for words in want:
        assert words in said


def test_the_selftest_finds_each_kind_whose_invalid_object_is_accepted(cluster: Cluster, namespace: str, bare: Path) -> None:
    """Where no webhook is installed that is each kind: the definitions of the kinds refuse none of these objects."""

    async def accepted(kubeconfig: Path, *, installs: bool) -> list[str]:
        async with Client(load_config(str(kubeconfig))) as client:
            if installs:
                definitions = [each for each in installation.objects("") if each["kind"] == "CustomResourceDefinition"]
                await installation.apply(client, definitions)
            return await selftest.accepted(client, namespace if not installs else "default", list(selftest.INVALID))

    assert asyncio.run(accepted(cluster.kubeconfig, installs=False)) == []
    kinds = [kind.kind for kind, _ in selftest.INVALID.values()]
    assert asyncio.run(accepted(bare, installs=True)) == kinds


@pytest.mark.parametrize(("queue", "warns"), [("default", False), ("no-such-queue", True)])
def test_webhook_warns_when_a_kubernetes_job_names_a_missing_queue(
    cluster: Cluster, namespace: str, queue: str, warns: bool
) -> None:
    spec = {**TASK["template"]["spec"], "restartPolicy": "Never"}  # type: ignore[index]
    template = {"metadata": {"labels": {"scheduling.volcano.sh/queue-name": queue}}, "spec": spec}
    body = manifest("batch/v1", "Job", "plain", {"template": template})
    made = Shell(cluster.kubeconfig, namespace).run(
        "kubectl", "create", "-n", namespace, "--dry-run=server", "-f", "-", stdin=body
    )
    assert made.returncode == 0, made.stderr
    assert ('there is no queue "no-such-queue"; the pods wait until there is one' in made.stderr) is warns


def test_job_webhook_sets_default_fields_and_plugins(cluster: Cluster, namespace: str) -> None:
    cluster.create(job("plain", plugins={"mpi": ["--master=a"]}), namespace)
    spec = cluster.get("vcjob", "plain", "-n", namespace)["spec"]
    assert (spec["queue"], spec["maxRetry"], spec["minAvailable"], spec["tasks"][0]["minAvailable"]) == ("default", 3, 1, 1)
    assert spec["plugins"] == {"mpi": ["--master=a"], "ssh": [], "svc": []}


def test_job_update_may_change_replicas_but_not_the_queue(cluster: Cluster, namespace: str) -> None:
    cluster.create(job("fixed"), namespace)

    def patch(operation: dict[str, Any]) -> tuple[str, ...]:
        return ("patch", "vcjob", "fixed", "-n", namespace, "--type=json", "-p", json.dumps([operation]))

    cluster.kubectl(*patch({"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}))
    said = cluster.refused(*patch({"op": "replace", "path": "/spec/queue", "value": "other"}))
    assert "job updates may not change fields other than" in said
    assert "changed: spec.queue" in said


def test_queue_gets_default_fields_and_root_and_default_queues_cannot_be_deleted(cluster: Cluster, namespace: str) -> None:
    queue = f"q-{namespace}"
    cluster.create(manifest("scheduling.volcano.sh/v1beta1", "Queue", queue, {}))
    spec = cluster.get("queue", queue)["spec"]
    assert (spec["weight"], spec["reclaimable"]) == (1, True)
    wait_until(lambda: cluster.get("queue", queue)["spec"].get("parent") == "root", "the job controller to name its parent")
    cluster.kubectl("delete", "queue", queue)
    assert "`root` queue can not be deleted" in cluster.refused("delete", "queue", "root")
    assert "`default` queue can not be deleted" in cluster.refused("delete", "queue", "default")


def test_queue_can_be_deleted_only_once_its_child_queues_are_deleted(cluster: Cluster, namespace: str) -> None:
    parent, children = f"q-{namespace}", [f"q-{namespace}-{number}" for number in range(3)]
    cluster.create(manifest("scheduling.volcano.sh/v1beta1", "Queue", parent, {}))
    for child in children:
        body = manifest("scheduling.volcano.sh/v1beta1", "Queue", child, {"parent": parent})
        cluster.create(body)
    is_kept("it has 3 child queues", cluster, "queue", parent)
    cluster.kubectl("delete", "queue", *children, parent)


def test_podgroup_without_a_queue_gets_the_queue_of_its_namespace(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("annotate", "namespace", namespace, "scheduling.volcano.sh/queue-name=default")
    cluster.kubectl(
        "create", "-n", namespace, "-f", "-", stdin=manifest("scheduling.volcano.sh/v1beta1", "PodGroup", "p", {"minMember": 1})
    )
    assert cluster.get("podgroups.scheduling.volcano.sh", "p", "-n", namespace)["spec"]["queue"] == "default"


def test_podgroup_of_a_job_gets_the_queue_of_its_namespace(cluster: Cluster, namespace: str) -> None:
    queue = f"q-{namespace}"
    cluster.create(manifest("scheduling.volcano.sh/v1beta1", "Queue", queue, {}))
    cluster.kubectl("annotate", "namespace", namespace, f"scheduling.volcano.sh/queue-name={queue}")
    cluster.create(manifest("batch.volcano.sh/v1alpha1", "Job", "j", JOB_SPEC), namespace)

    def queues() -> list[str]:
        return [group["spec"]["queue"] for group in cluster.get("podgroups.scheduling.volcano.sh", "-n", namespace)["items"]]

    wait_until(queues, "the PodGroup of the Job")
    assert queues() == [queue]
    cluster.kubectl("delete", "vcjob", "j", "-n", namespace)
    wait_until(lambda: not queues(), "the PodGroup to go")
    cluster.kubectl("delete", "queue", queue)


def test_jobtemplate_in_use_cannot_be_deleted_until_its_jobflow_is_deleted(cluster: Cluster, namespace: str) -> None:
    flow = {"jobRetainPolicy": "retain", "flows": [{"name": "step"}]}
    cluster.kubectl(
        "create", "-n", namespace, "-f", "-", stdin=manifest("flow.volcano.sh/v1alpha1", "JobTemplate", "step", JOB_SPEC)
    )
    cluster.create(manifest("flow.volcano.sh/v1alpha1", "JobFlow", "flow", flow), namespace)
    is_kept("JobFlows that are not complete use it: flow", cluster, "jobtemplate", "step", "-n", namespace)
    cluster.kubectl("annotate", "jobflow", "flow", "-n", namespace, "flow.volcano.sh/force-delete=true")
    cluster.kubectl("delete", "jobflow/flow", "jobtemplate/step", "-n", namespace)  # one at once after the other


def test_pod_of_another_scheduler_triggers_no_webhook_call(cluster: Cluster, namespace: str) -> None:
    """Counted where the calls arrive: a pod that is not ours leaves no trace there."""
    before = pod_calls(cluster)
    plain = manifest("v1", "Pod", "plain", TASK["template"]["spec"])  # type: ignore[index]
    cluster.create(plain, namespace)
    assert pod_calls(cluster) == before
    ours = manifest("v1", "Pod", "ours", {"schedulerName": "volcano", **TASK["template"]["spec"]}, annotations=JDB)  # type: ignore[index]
    cluster.create(ours, namespace)
    assert pod_calls(cluster) > before


def is_kept(why: str, cluster: Cluster, *what: str) -> None:
    """Wait until it may not be deleted for that reason: the webhook sees other objects through watches."""

    def is_refused() -> bool:
        try:
            cluster.kubectl("delete", *what, "--dry-run=server")
        except KubectlError as error:
            return why in error.stderr
        return False

    wait_until(is_refused, f"the webhook to keep {what} as {why}")


def pod_calls(cluster: Cluster) -> int:
    """How often the webhooks for pods were called."""
    lines = cluster.metrics("admission").splitlines()
    counts = [line for line in lines if line.startswith("pyroclast_admission_reviews_total") and 'webhook="/pods/' in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in counts)
