"""What people type: each kubectl command once, its output checked. Unchanged on the embedded and on a real control plane."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: demo}}
data: {colour: red, size: small}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: busybox:1.37
    command: [sh, -c, "echo hello from the pod; sleep 600"]
"""
# Nobody makes pods for it: a Deployment is stored and patched alike on a server without its controller.
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: front}
spec:
  replicas: 0
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      containers:
      - {name: main, image: "nginx:1", ports: [{containerPort: 80}]}
      - {name: side, image: "busybox:1"}
"""


@pytest.fixture
def settings(cluster: Cluster, namespace: str) -> str:
    """A namespace with the ConfigMap `settings` in it."""
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=CONFIG_MAP)
    return namespace


@pytest.fixture
def web(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A namespace with the running pod `web` in it, bound by hand: it is nobody's Job."""
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=POD)
    node = cluster.get("nodes")["items"][0]["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web", "namespace": namespace}, "target": target}
    cluster.kubectl("create", "--raw", f"/api/v1/namespaces/{namespace}/pods/web/binding", "-f", "-", stdin=json.dumps(binding))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/web", "--timeout=60s")
    yield namespace
    cluster.kubectl("delete", "pod", "web", "-n", namespace, "--now", "--ignore-not-found")


def rows(output: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in output.splitlines()]


def test_kubectl_version_prints_the_server_version(cluster: Cluster) -> None:
    assert re.search(r"Server Version: v1\.\d+\.\d+", cluster.kubectl("version"))


def test_kubectl_api_resources_lists_the_short_names_of_the_custom_resources(cluster: Cluster) -> None:
    table = cluster.kubectl("api-resources")
    shorts = {"jobs": "vcjob,vj", "podgroups": "pg,podgroup-v1beta1", "queues": "q,queue-v1beta1", "jobflows": "jf"}
    for name, short in shorts.items():
        assert re.search(rf"^{name}\s+{short}\s", table, re.MULTILINE), table
    assert "batch.volcano.sh/v1alpha1" in cluster.kubectl("api-versions").splitlines()


def test_kubectl_get_prints_tables_of_pods_and_nodes(cluster: Cluster, web: str) -> None:
    assert rows(cluster.kubectl("get", "pods", "-n", web))[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows(cluster.kubectl("get", "pods", "-n", web))[1][:3] == ["web", "1/1", "Running"]
    wide = rows(cluster.kubectl("get", "pod", "web", "-n", web, "-o", "wide"))
    assert wide[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert rows(cluster.kubectl("get", "nodes"))[1][1] == "Ready"
    assert any(row[:2] == [web, "web"] for row in rows(cluster.kubectl("get", "pods", "-A")))
    assert "pod/web" in cluster.kubectl("get", "all", "-n", web)


def test_kubectl_get_honours_output_formats_and_selectors(cluster: Cluster, settings: str) -> None:
    assert yaml.safe_load(cluster.kubectl("get", "cm", "settings", "-n", settings, "-o", "yaml"))["data"]["colour"] == "red"
    assert cluster.get("cm", "-n", settings, "-l", "app=demo")["items"][0]["kind"] == "ConfigMap"
    assert cluster.kubectl("get", "cm", "settings", "-n", settings, "-o", "jsonpath={.data.size}") == "small"
    assert cluster.kubectl("get", "cm", "settings", "-n", settings, "-o", "name") == "configmap/settings\n"
    columns = "custom-columns=N:.metadata.name,C:.data.colour"
    assert rows(cluster.kubectl("get", "cm", "-n", settings, "-l", "app=demo", "-o", columns)) == [
        ["N", "C"],
        ["settings", "red"],
    ]
    assert "settings" in cluster.kubectl("get", "cm", "-n", settings, "--sort-by=.metadata.name")
    selected = cluster.kubectl("get", "cm", "-n", settings, "--field-selector", "metadata.name=settings", "-o", "name")
    assert selected == "configmap/settings\n"


def test_kubectl_get_with_chunk_size_lists_all_objects_in_order(cluster: Cluster, namespace: str) -> None:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}} for number in range(7)]
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    names = cluster.kubectl("get", "cm", "-n", namespace, "--chunk-size=2", "-o", "name").split()
    assert [name for name in names if name.startswith("configmap/c")] == [f"configmap/c{number}" for number in range(7)]


def test_kubectl_get_reports_a_missing_object_and_an_unknown_resource_type(cluster: Cluster, namespace: str) -> None:
    assert cluster.refused("get", "pod", "nope", "-n", namespace) == 'Error from server (NotFound): pods "nope" not found\n'
    assert cluster.refused("get", "vj", "x", "-n", namespace).endswith('(NotFound): jobs.batch.volcano.sh "x" not found\n')
    assert "the server doesn't have a resource type" in cluster.refused("get", "nonsense")


def test_kubectl_watch_prints_added_modified_and_deleted_events(cluster: Cluster, settings: str) -> None:
    lines: list[str] = []
    command = f"kubectl --kubeconfig {cluster.kubeconfig} get cm settings -n {settings} -w --output-watch-events"
    watching = subprocess.Popen(command.split(), stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    stdout = watching.stdout
    reader = threading.Thread(target=lambda: lines.extend(iter(stdout.readline, "")))
    reader.start()
    wait_until(lambda: any("ADDED" in line for line in lines), "the watch to begin")
    cluster.kubectl("label", "cm", "settings", "-n", settings, "shade=dark")
    wait_until(lambda: any("MODIFIED" in line for line in lines), "the change")
    cluster.kubectl("delete", "cm", "settings", "-n", settings)
    wait_until(lambda: any("DELETED" in line for line in lines), "the deletion")
    watching.terminate()
    watching.wait()
    reader.join()
    stdout.close()


def test_kubectl_describe_prints_pods_nodes_namespaces_and_deployments(cluster: Cluster, web: str) -> None:
    said = cluster.kubectl("describe", "pod", "web", "-n", web)
    assert re.search(r"^Name:\s+web$", said, re.MULTILINE)
    assert re.search(r"^Status:\s+Running$", said, re.MULTILINE)
    node = cluster.get("pod", "web", "-n", web)["spec"]["nodeName"]
    assert "web" in cluster.kubectl("describe", "node", node)
    assert re.search(r"^Status:\s+Active$", cluster.kubectl("describe", "ns", web), re.MULTILINE)
    cluster.kubectl("create", "-n", web, "-f", "-", stdin=DEPLOYMENT)
    assert "nginx:1" in cluster.kubectl("describe", "deployment", "front", "-n", web)


def test_kubectl_describe_and_explain_print_fields_of_a_vcjob(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=job("told", command=["sleep", "1"]))
    said = cluster.kubectl("describe", "vj", "told", "-n", namespace)
    assert re.search(r"^Kind:\s+Job$", said, re.MULTILINE)
    assert "Min Available:  1" in said
    explained = cluster.kubectl("explain", "vj.spec.minAvailable")
    assert "KIND:       Job" in explained
    assert "FIELD: minAvailable <integer>" in explained
    assert "restartPolicy" in cluster.kubectl("explain", "pod.spec")


def test_kubectl_events_lists_events_of_a_namespace_and_of_a_pod(cluster: Cluster, web: str) -> None:
    about = {"kind": "Pod", "apiVersion": "v1", "name": "web", "namespace": web}
    event: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "seen"},
        "involvedObject": about,
        "type": "Normal",
    }
    event |= {"reason": "Noticed", "message": "somebody looked", "count": 1, "lastTimestamp": "2026-01-01T00:00:00Z"}
    cluster.kubectl("create", "-n", web, "-f", "-", stdin=json.dumps(event))
    assert "somebody looked" in cluster.kubectl("events", "-n", web)
    assert "Noticed" in cluster.kubectl("events", "-n", web, "--for", "pod/web")


def test_kubectl_create_subcommands_create_objects_and_refuse_an_existing_name(cluster: Cluster, namespace: str) -> None:
    def create(*arguments: str) -> str:
        return cluster.kubectl("create", *arguments, "-n", namespace)

    assert create("configmap", "plain", "--from-literal=a=b") == "configmap/plain created\n"
    assert create("secret", "generic", "hidden", "--from-literal=k=v") == "secret/hidden created\n"
    assert cluster.get("secret", "hidden", "-n", namespace)["data"] == {"k": "dg=="}
    assert create("serviceaccount", "robot") == "serviceaccount/robot created\n"
    assert create("role", "reader", "--verb=get,list", "--resource=pods") == "role.rbac.authorization.k8s.io/reader created\n"
    assert "rolebinding" in create("rolebinding", "readers", "--role=reader", f"--serviceaccount={namespace}:robot")
    assert create("quota", "limits", "--hard=pods=10") == "resourcequota/limits created\n"
    assert create("deployment", "app", "--image=nginx:1", "--replicas=0") == "deployment.apps/app created\n"
    assert create("configmap", "dry", "--from-literal=a=b", "--dry-run=server") == "configmap/dry created (server dry run)\n"
    assert 'configmaps "dry" not found' in cluster.refused("get", "configmap", "dry", "-n", namespace)
    assert create("token", "robot").count(".") == 2
    assert "already exists" in cluster.refused("create", "configmap", "plain", "-n", namespace)


def test_kubectl_auth_can_i_answers_by_the_roles_of_an_impersonated_account(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "serviceaccount", "robot", "-n", namespace)
    cluster.kubectl("create", "role", "reader", "--verb=get", "--resource=pods", "-n", namespace)
    cluster.kubectl("create", "rolebinding", "readers", "--role=reader", f"--serviceaccount={namespace}:robot", "-n", namespace)
    robot = f"--as=system:serviceaccount:{namespace}:robot"
    assert cluster.kubectl("auth", "can-i", "create", "vcjob") == "yes\n"
    assert cluster.kubectl("auth", "can-i", "get", "pods", "-n", namespace, robot) == "yes\n"
    assert cluster.refused("auth", "can-i", "delete", "pods", "-n", namespace, robot) == ""  # "no" goes to standard output
    assert "pods" in cluster.kubectl("auth", "can-i", "--list", "-n", namespace, robot)
    assert "system:masters" in cluster.kubectl("auth", "whoami")
    assert "Forbidden" in cluster.refused("get", "secrets", "-n", namespace, robot)


def test_client_side_apply_reports_created_unchanged_and_configured(cluster: Cluster, namespace: str) -> None:
    def apply(text: str) -> str:
        return cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)

    assert apply(DEPLOYMENT) == "deployment.apps/front created\n"
    assert apply(DEPLOYMENT) == "deployment.apps/front unchanged\n"
    assert apply(DEPLOYMENT.replace("nginx:1", "nginx:2")) == "deployment.apps/front configured\n"
    containers = cluster.get("deployment", "front", "-n", namespace)["spec"]["template"]["spec"]["containers"]
    assert [container["image"] for container in containers] == ["nginx:2", "busybox:1"]
    assert apply(CONFIG_MAP) == "configmap/settings created\n"
    assert apply(CONFIG_MAP.replace("size: small", "size: large")) == "configmap/settings configured\n"
    manifest = job("applied", command=["sleep", "1"])
    assert apply(manifest) == "job.batch.volcano.sh/applied created\n"
    assert apply(manifest) == "job.batch.volcano.sh/applied configured\n"  # its list of tasks has defaults in it by now


def test_server_side_apply_refuses_conflicts_unless_forced(cluster: Cluster, namespace: str) -> None:
    def apply(manager: str, text: str, *more: str) -> tuple[str, ...]:
        return ("apply", "--server-side", "--field-manager", manager, "-n", namespace, "-f", "-", *more)

    assert cluster.kubectl(*apply("one", CONFIG_MAP), stdin=CONFIG_MAP) == "configmap/settings serverside-applied\n"
    other = CONFIG_MAP.replace("red", "blue")
    said = cluster.refused(*apply("two", other), stdin=other)
    assert 'conflict with "one": .data.colour' in said
    cluster.kubectl(*apply("two", other, "--force-conflicts"), stdin=other)
    assert cluster.get("cm", "settings", "-n", namespace)["data"]["colour"] == "blue"


def test_apply_prune_deletes_objects_removed_from_the_manifest(cluster: Cluster, namespace: str) -> None:
    prune = ("--prune", "-l", "app=demo", "--prune-allowlist=core/v1/ConfigMap")
    both = f"{CONFIG_MAP}---{CONFIG_MAP.replace('name: settings', 'name: more')}"
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=both)
    assert "configmap/more pruned" in cluster.kubectl("apply", "-n", namespace, *prune, "-f", "-", stdin=CONFIG_MAP)
    assert cluster.kubectl("get", "cm", "-n", namespace, "-l", "app=demo", "-o", "name") == "configmap/settings\n"


def test_kubectl_diff_prints_the_change_and_does_not_store_it(cluster: Cluster, settings: str) -> None:
    said = subprocess.run(
        ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "diff", "-n", settings, "-f", "-"],
        input=CONFIG_MAP.replace("red", "green"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1, said.stderr
    assert "+  colour: green" in said.stdout
    assert cluster.get("cm", "settings", "-n", settings)["data"]["colour"] == "red"


@pytest.mark.parametrize(
    ("how", "patch"),
    [
        *((how, '{"data":{"colour":"blue"}}') for how in ("merge", "strategic")),
        ("json", '[{"op":"replace","path":"/data/colour","value":"blue"}]'),
    ],
)
def test_kubectl_patch_changes_one_key_and_reports_no_change_when_repeated(
    cluster: Cluster, settings: str, how: str, patch: str
) -> None:
    change = ("patch", "cm", "settings", "-n", settings, "--type", how, "-p", patch)
    assert cluster.kubectl(*change) == "configmap/settings patched\n"
    assert cluster.get("cm", "settings", "-n", settings)["data"] == {"colour": "blue", "size": "small"}
    assert cluster.kubectl(*change).endswith("patched (no change)\n")


def test_strategic_patch_merges_containers_and_is_refused_for_custom_resources(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    patch = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox:2"}]}}}}'
    cluster.kubectl("patch", "deployment", "front", "-n", namespace, "-p", patch)
    containers = cluster.get("deployment", "front", "-n", namespace)["spec"]["template"]["spec"]["containers"]
    assert {container["name"]: container["image"] for container in containers} == {"main": "nginx:1", "side": "busybox:2"}
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=job("strict", command=["sleep", "1"]))
    said = cluster.refused("patch", "vcjob", "strict", "-n", namespace, "-p", "{}")
    assert "application/merge-patch+json" in said


def test_kubectl_patch_of_the_status_subresource_changes_only_the_status(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    change = {"spec": {"paused": True}, "status": {"conditions": [{"type": "Checked", "status": "True"}]}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(change))
    assert cluster.kubectl("patch", "deployment", "front", "-n", namespace, *patch) == "deployment.apps/front patched\n"
    found = cluster.get("deployment", "front", "-n", namespace, "--subresource=status")
    assert "Checked" in {each["type"] for each in found["status"]["conditions"]}
    assert "paused" not in found["spec"]


def test_kubectl_edit_stores_the_change_made_by_the_editor(cluster: Cluster, settings: str, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/colour: red/colour: pink/" "$1"\n')
    editor.chmod(0o755)
    said = subprocess.run(
        ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "edit", "cm", "settings", "-n", settings],
        env={"EDITOR": str(editor), "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout == "configmap/settings edited\n", said.stderr
    assert cluster.get("cm", "settings", "-n", settings)["data"]["colour"] == "pink"


def test_kubectl_replace_refuses_a_stale_resource_version_unless_forced(cluster: Cluster, settings: str) -> None:
    replaced = CONFIG_MAP.replace("red", "white")
    assert cluster.kubectl("replace", "-n", settings, "-f", "-", stdin=replaced) == "configmap/settings replaced\n"
    stale = cluster.get("cm", "settings", "-n", settings)
    cluster.kubectl("label", "cm", "settings", "-n", settings, "touched=yes")
    assert "the object has been modified" in cluster.refused("replace", "-n", settings, "-f", "-", stdin=json.dumps(stale))
    forced = cluster.kubectl("replace", "--force", "-n", settings, "-f", "-", stdin=CONFIG_MAP)
    assert "configmap/settings replaced" in forced


def test_kubectl_scale_set_image_and_rollout_restart_update_a_deployment(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    assert cluster.kubectl("scale", "deployment", "front", "--replicas=0", "-n", namespace) == "deployment.apps/front scaled\n"
    said = cluster.refused("scale", "deployment", "front", "--current-replicas=5", "--replicas=2", "-n", namespace)
    assert "Expected replicas to be 5" in said
    assert "image updated" in cluster.kubectl("set", "image", "deployment/front", "main=nginx:3", "-n", namespace)
    assert "restarted" in cluster.kubectl("rollout", "restart", "deployment/front", "-n", namespace)


def test_kubectl_label_and_annotate_change_metadata(cluster: Cluster, settings: str) -> None:
    assert cluster.kubectl("label", "cm", "settings", "-n", settings, "tier=one") == "configmap/settings labeled\n"
    assert cluster.kubectl("annotate", "cm", "settings", "-n", settings, "note=here") == "configmap/settings annotated\n"
    metadata = cluster.get("cm", "settings", "-n", settings)["metadata"]
    assert (metadata["labels"]["tier"], metadata["annotations"]["note"]) == ("one", "here")
    assert cluster.kubectl("label", "cm", "settings", "-n", settings, "tier-") == "configmap/settings unlabeled\n"
    assert cluster.kubectl("annotate", "cm", "--all", "-n", settings, "all=yes").count("annotated") >= 1


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_kubectl_delete_deletes_or_orphans_dependents_by_cascade_mode(cluster: Cluster, namespace: str, cascade: str) -> None:
    cluster.kubectl("create", "configmap", "owner", "-n", namespace)
    uid = cluster.get("cm", "owner", "-n", namespace)["metadata"]["uid"]
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    owner = {**kind, "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    owned = {**kind, "metadata": {"name": "owned", "ownerReferences": [owner]}}
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(owned))
    assert cluster.kubectl("delete", "cm", "owner", f"--cascade={cascade}", "-n", namespace) == 'configmap "owner" deleted\n'

    def left() -> str:
        return cluster.kubectl("get", "cm", "owned", "-n", namespace, "--ignore-not-found", "-o", "yaml")

    if cascade == "orphan":
        wait_until(lambda: "ownerReferences" not in left(), "the owner reference to go")
        assert left()
    else:
        wait_until(lambda: not left(), "the dependent to go")


def test_kubectl_delete_supports_dry_run_force_and_label_selector(cluster: Cluster, web: str) -> None:
    assert cluster.kubectl("delete", "pod", "web", "-n", web, "--dry-run=server") == 'pod "web" deleted (server dry run)\n'
    assert cluster.get("pod", "web", "-n", web)["status"]["phase"] == "Running"
    assert 'pod "web" force deleted' in cluster.kubectl("delete", "pod", "web", "-n", web, "--grace-period=0", "--force")
    cluster.kubectl("create", "configmap", "one", "-n", web)
    cluster.kubectl("label", "cm", "one", "-n", web, "group=x")
    assert cluster.kubectl("delete", "cm", "-l", "group=x", "-n", web) == 'configmap "one" deleted\n'


def test_kubectl_wait_supports_conditions_jsonpath_timeout_and_deletion(cluster: Cluster, web: str) -> None:
    assert cluster.kubectl("wait", "-n", web, "--for=condition=Ready", "pod/web", "--timeout=60s") == "pod/web condition met\n"
    running = "--for=jsonpath={.status.phase}=Running"
    assert "condition met" in cluster.kubectl("wait", "-n", web, running, "pod/web", "--timeout=60s")
    assert "timed out" in cluster.refused("wait", "-n", web, "--for=condition=Sleepy", "pod/web", "--timeout=1s")
    cluster.kubectl("delete", "pod", "web", "-n", web, "--wait=false")
    cluster.kubectl("wait", "-n", web, "--for=delete", "pod/web", "--timeout=60s")


def test_kubectl_wait_for_create_waits_for_an_object_created_later(cluster: Cluster, namespace: str) -> None:
    create = threading.Timer(0.5, cluster.kubectl, ("create", "configmap", "late", "-n", namespace))
    create.start()
    assert "condition met" in cluster.kubectl("wait", "--for=create", "cm/late", "-n", namespace, "--timeout=60s")
    create.join()


def test_kubectl_logs_prints_pod_output_and_follow_ends_with_the_pod(cluster: Cluster, web: str) -> None:
    assert cluster.kubectl("logs", "web", "-n", web) == "hello from the pod\n"
    assert cluster.kubectl("logs", "-l", "app=web", "-n", web, "--tail=5") == "hello from the pod\n"
    assert cluster.kubectl("logs", "web", "-c", "main", "--timestamps", "-n", web).endswith("Z hello from the pod\n")
    delete = threading.Timer(1.0, cluster.kubectl, ("delete", "pod", "web", "-n", web, "--grace-period=1"))
    delete.start()
    assert cluster.kubectl("logs", "-f", "web", "--since=600s", "-n", web) == "hello from the pod\n"  # ends when the pod does
    delete.join()


def test_kubectl_cordons_and_taints_a_node_and_drain_evicts_its_pods(cluster: Cluster, web: str) -> None:
    node = cluster.get("pod", "web", "-n", web)["spec"]["nodeName"]
    try:
        assert cluster.kubectl("cordon", node) == f"node/{node} cordoned\n"
        assert "SchedulingDisabled" in cluster.kubectl("get", "node", node)
        assert "tainted" in cluster.kubectl("taint", "nodes", node, "colour=red:NoSchedule")
        assert "evicting pod" in cluster.kubectl("drain", node, "--force", "--ignore-daemonsets", "--timeout=60s")
        assert not cluster.get("pods", "-n", web)["items"]
    finally:
        cluster.kubectl("uncordon", node)
        cluster.kubectl("taint", "nodes", node, "colour-")


def test_kubectl_run_creates_a_pod_and_expose_creates_its_service(cluster: Cluster, namespace: str) -> None:
    assert cluster.kubectl("run", "single", "--image=nginx:1", "--port=80", "-n", namespace) == "pod/single created\n"
    assert "exposed" in cluster.kubectl("expose", "pod", "single", "--port=80", "-n", namespace)
    assert cluster.get("service", "single", "-n", namespace)["spec"]["ports"][0]["port"] == 80


def test_kubectl_top_and_exec_are_refused_and_cluster_info_prints_the_control_plane(cluster: Cluster, web: str) -> None:
    assert "Metrics API not available" in cluster.refused("top", "pods", "-n", web)
    assert cluster.refused("exec", "web", "-n", web, "--", "true")
    assert "control plane" in cluster.kubectl("cluster-info")


def test_strict_validation_names_the_unknown_field(cluster: Cluster, namespace: str) -> None:
    manifest = json.loads(job("typo", command=["sleep", "1"]))
    manifest["spec"]["minAvailabel"] = 3
    said = cluster.refused("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))
    assert 'unknown field "spec.minAvailabel"' in said
