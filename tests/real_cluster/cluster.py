"""A cluster of real nodes on one machine, as kind has it but without docker.

The control plane runs in the network of node 1. Pods reach Services through kube-proxy, names through CoreDNS, and volumes of the
StorageClass `standard` are folders of the node.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.control_plane import build
from tests.control_plane.parts import wait_until
from tests.control_plane.real import Host, RealControlPlane
from tests.real_cluster import images, network
from tests.real_cluster.node import Node

__all__ = ["Access", "RealCluster", "obstacle", "real_cluster", "remove"]

_PROGRAMS = ("containerd", "runc", "nft", "ip", "unshare", "nsenter", "gcc", "mmdebstrap", "buildah", "busybox", "kubectl")
_RESERVED = "18Gi"
"""Memory that each node leaves to the others, as each sees the whole machine."""
_CONTROLLERS = "*"


def obstacle() -> str:
    """Why this machine cannot run such a cluster; empty if it can."""
    if os.geteuid():
        return "it takes root"
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"there is no {', '.join(absent)}"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay mounts"
    if not Path("/sys/fs/cgroup/memory/tasks").exists():
        return "the control groups of this machine are not those of version 1"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False)
    if tried.returncode:
        return "this user may make no namespaces"
    if build.missing([tool.name for tool in build.of_nodes()]) and shutil.which("go") is None:
        return "there is no Go to build kubelet with"
    return ""


class Access:
    """The administrator's access to a cluster, by the tools that people use."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl as the administrator, and return what it prints.

        Raises:
            RuntimeError: it failed, with what it said.
        """
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        ended = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if check and ended.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {ended.stderr.strip()}")
        return ended.stdout + ("" if check else ended.stderr)

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects of `kubectl get`."""
        listed = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return list(listed["items"]) if "items" in listed else [listed]

    def apply(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Apply objects."""
        self.kubectl(
            "apply", "--server-side", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def helm(self, *arguments: str) -> str:
        """Run helm as the administrator, and return what it prints.

        Raises:
            RuntimeError: it failed, with what it said.
        """
        return network.run(str(build.program("helm")), f"--kubeconfig={self.kubeconfig}", *arguments)


class RealCluster:
    """The control plane and the nodes. Made by `real_cluster`."""

    def __init__(self, directory: Path, *, nodes: int = 3, reserved: str = _RESERVED, archives: Sequence[Path] = ()) -> None:
        self.directory = directory = directory.absolute()
        indexes = range(1, nodes + 1)
        bases = images.base_images()
        first = [bases[name] for name in (images.PAUSE, images.COREDNS, images.BUSYBOX)]
        rest = [*archives, *(path for path in bases.values() if path not in first)]
        self.nodes = [Node(index, directory / f"node-{index}", first=first, images=rest, reserved=reserved) for index in indexes]
        enter = ("ip", "netns", "exec", network.namespace(1))
        host = Host(network.address(1), enter, has_kubelets=True)
        self.plane = RealControlPlane(directory, fsync=False, scheduler=True, controllers=_CONTROLLERS, host=host)
        self.access = Access(self.plane.kubeconfig)

    async def start(self) -> None:
        """Start everything, and wait until all nodes are ready and names are resolved."""
        network.make([node.index for node in self.nodes])
        await self.plane.start()
        pki = self.plane.certificates
        pki.client("kube-proxy", "system:kube-proxy")
        proxy = self.plane.write_kubeconfig("kube-proxy")
        for node in self.nodes:
            pki.client(node.name, f"system:node:{node.name}", ["system:nodes"])
            node.directory.mkdir(parents=True, exist_ok=True)
            node.write_files(self.plane.write_kubeconfig(node.name), proxy, network.address(1))
            await asyncio.to_thread(node.start)
        self.access.apply(_addons(self.nodes))
        await wait_until(self.is_ready, 180.0, "all nodes and CoreDNS to be ready")

    async def stop(self) -> None:
        """End everything that runs, and remove networks and control groups."""
        for node in self.nodes:
            await asyncio.to_thread(node.cut_power)
        await self.plane.stop()
        remove(self.directory)

    async def is_ready(self) -> bool:
        """Whether all nodes are ready and have all images, and CoreDNS is ready."""
        nodes = self.access.get("nodes")
        ready = [each for each in nodes if _condition(each, "Ready") == "True"]
        dns = self.access.get("pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns")
        return (
            len(ready) == len(self.nodes)
            and all(node.has_all_images for node in self.nodes)
            and any(_condition(pod, "Ready") == "True" for pod in dns)
        )


def remove(directory: Path) -> None:
    """Cut the power of the nodes with files in `directory`, and remove networks and control groups."""
    for folder in directory.glob("node-*/"):
        node = Node(int(folder.name.rpartition("-")[2]), folder)
        node.cut_power()
        node.remove_cgroups()
    network.remove()


@asynccontextmanager
async def real_cluster(directory: Path, **options: Any) -> AsyncIterator[RealCluster]:
    """Run a cluster with its data, keys and logs in `directory`. `options`: of `RealCluster`."""
    cluster = RealCluster(directory, **options)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


def _condition(item: Mapping[str, Any], kind: str) -> str:
    conditions = item.get("status", {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def _addons(nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """CoreDNS, the rights of kube-proxy, and a StorageClass with volumes on the nodes."""
    corefile = (
        ".:53 {\n  errors\n  health\n  ready\n  kubernetes cluster.local in-addr.arpa {\n    pods insecure\n  }\n  cache 5\n}\n"
    )
    labels = {"k8s-app": "kube-dns"}
    rules = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    container = {
        "name": "coredns",
        "image": images.COREDNS,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "20m", "memory": "30Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
    }
    pod = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    system = {"namespace": "kube-system"}
    deployment = {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    ports = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "coredns", **system}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "coredns"}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "coredns"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", **system}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns", **system}, "data": {"Corefile": corefile}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns", **system}, "spec": deployment},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", **system},
            "spec": {"clusterIP": "10.0.0.10", "selector": labels, "ports": ports},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        *(_volume(node, number) for node in nodes for number in range(2)),
    ]


def _volume(node: Node, number: int) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{node.name}-{number}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"{node.directory}/volumes/{number}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
