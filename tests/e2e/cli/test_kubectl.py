"""What people type: each kubectl command once, its output checked. Unchanged on the embedded and on a real control plane."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_apply_prune_deletes_objects_removed_from_the_manifest(cluster: Cluster, namespace: str) -> None:
    prune = ("--prune", "-l", "app=demo", "--prune-allowlist=core/v1/ConfigMap")
    both = f"{CONFIG_MAP}---{CONFIG_MAP.replace('name: settings', 'name: more')}"
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=both)
    assert "configmap/more pruned" in cluster.kubectl("apply", "-n", namespace, *prune, "-f", "-", stdin=CONFIG_MAP)
    assert cluster.kubectl("get", "cm", "-n", namespace, "-l", "app=demo", "-o", "name") == "configmap/settings\n"


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


def test_kubectl_top_and_exec_are_refused_and_cluster_info_prints_the_control_plane(cluster: Cluster, web: str) -> None:
    assert "Metrics API not available" in cluster.refused("top", "pods", "-n", web)
    assert cluster.refused("exec", "web", "-n", web, "--", "true")
    assert "control plane" in cluster.kubectl("cluster-info")
