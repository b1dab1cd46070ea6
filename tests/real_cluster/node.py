"""One node: a tree of processes in namespaces of its own, in which containerd, kube-proxy and kubelet run as on a machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane import build
from tests.real_cluster import network
from tests.real_cluster.images import PAUSE

__all__ = ["Node"]

_CGROUPS = Path("/sys/fs/cgroup")
_DNS = "10.0.0.10"
_MADE_ON_THE_MACHINE = ("/var/lib/kubelet", "/var/lib/cni", "/etc/cni/net.d", "/var/log/pods", "/var/log/containers")
"""Folders that nodes lay their own over. They must exist on the machine, where they stay empty."""


class Node:
    """A node of the cluster. `index` is from 1. Its files are in `directory`, also those of containers.

    `first`: the images that the cluster itself needs, imported before kubelet starts; `images`: the others.
    """

    def __init__(
        self, index: int, directory: Path, *, first: Sequence[Path] = (), images: Sequence[Path] = (), reserved: str = ""
    ) -> None:
        self.index, self.name, self.address = index, f"node-{index}", network.address(index)
        self.directory = directory
        self._first, self._images, self._reserved = first, images, reserved

    @property
    def has_all_images(self) -> bool:
        """Whether all images have been imported since the node was switched on."""
        return (self.directory / "images.done").exists()

    @property
    def static_pods(self) -> Path:
        """The folder from which the kubelet takes pods without the API server."""
        return self.directory / "static"

    @property
    def pid(self) -> int | None:
        """The process id of the first process of the node; None if the node is off."""
        try:
            keeper = int((self.directory / "pid").read_text())
            children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        except (OSError, ValueError):
            return None
        return int(children[0]) if children else None

    def write_files(self, kubeconfig: Path, proxy_kubeconfig: Path, server: str) -> None:
        """Write what the programs of the node read. `server`: the address of the API server."""
        directory = self.directory
        for folder in (directory / "root", self.static_pods):
            folder.mkdir(parents=True, exist_ok=True)
        (directory / "kubelet.kubeconfig").write_text(kubeconfig.read_text())
        (directory / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n{server} apiserver\n")
        (directory / "resolv.conf").write_text(f"nameserver {_DNS}\n")
        (directory / "containerd.toml").write_text(_containerd(directory))
        (directory / "cni.conflist").write_text(json.dumps(_cni(self.index)))
        (directory / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(self._reserved, directory)))
        (directory / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy(self.name, proxy_kubeconfig)))
        programs = {"KUBELET": build.program("kubelet"), "KUBE_PROXY": build.program("kube-proxy")}
        values = {"NAME": self.name, "ADDRESS": self.address, **programs}
        values |= {"FIRST_IMAGES": " ".join(map(str, self._first)), "IMAGES": " ".join(map(str, self._images))}
        (directory / "node.env").write_text("".join(f"{key}={shlex.quote(str(value))}\n" for key, value in values.items()))
        for folder in _MADE_ON_THE_MACHINE:
            Path(folder).mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Switch the node on."""
        joins = [f"echo $$ > {shlex.quote(str(each / 'cgroup.procs'))}" for each in self._cgroups()]
        namespaces = "--mount --uts --ipc --pid --cgroup --fork --kill-child --mount-proc"
        script = Path(__file__).with_name("node.sh")
        inner = f"exec ip netns exec {network.namespace(self.index)} unshare {namespaces} bash {script} {self.directory}"
        keeper = "; ".join([f"echo $$ > {self.directory}/pid", *joins, inner])
        with (self.directory / "node.log").open("ab") as log:  # the node is nobody's child, as a machine is not
            subprocess.run(
                ["setsid", "--fork", "bash", "-ec", keeper], stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=True
            )

    def cut_power(self) -> None:
        """End everything on the node at once, as a power cut does."""
        first = self.pid
        if first is None:
            return
        os.kill(first, signal.SIGKILL)  # the kernel ends all other processes of its namespace
        deadline = time.monotonic() + 60
        while any((each / "cgroup.procs").read_text().strip() for each in self._cgroups()) and time.monotonic() < deadline:
            time.sleep(0.1)

    def enter(self, *command: str, check: bool = True) -> str:
        """Run a command on the node, and return what it prints."""
        return network.run(f"nsenter --target {self.pid} --mount --uts --ipc --net --pid --cgroup", *command, check=check)

    def load(self, image: Path) -> None:
        """Import the tarball of an image."""
        self.enter("ctr", "-n", "k8s.io", "images", "import", str(image))

    @property
    def kubelet(self) -> dict[str, Any]:
        """The configuration of the kubelet."""
        return dict(yaml.safe_load((self.directory / "kubelet.yaml").read_text()))

    def configure_kubelet(self, **changes: object) -> None:
        """Start the kubelet again with other fields of its configuration."""
        (self.directory / "kubelet.yaml").write_text(yaml.safe_dump({**self.kubelet, **changes}))
        self.enter("pkill", "-x", "kubelet")

    def stop_kubelet(self) -> None:
        """End the kubelet; containers go on."""
        (self.directory / "kubelet.off").touch()
        self.enter("pkill", "-x", "kubelet", check=False)

    def start_kubelet(self) -> None:
        """Start the kubelet again."""
        (self.directory / "kubelet.off").unlink(missing_ok=True)

    def remove_cgroups(self) -> None:
        """Remove what the node left in the hierarchies of cgroups."""
        for top in self._cgroups():
            for folder in sorted(top.rglob("*/"), key=lambda path: -len(path.parts)):
                folder.rmdir()
            top.rmdir()

    def _cgroups(self) -> list[Path]:
        """The node's group in each hierarchy of version 1, made if it is not there."""
        groups = []
        for hierarchy in sorted(each for each in _CGROUPS.iterdir() if (each / "tasks").exists()):
            group = hierarchy / f"pyroclast-{self.name}"
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which can then hold no process
                if (hierarchy / name).exists() and not (group / name).read_text().strip():
                    (group / name).write_text((hierarchy / name).read_text())
            groups.append(group)
        return groups


def _containerd(directory: Path) -> str:
    return f"""version = 2
root = "{directory}/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _cni(index: int) -> dict[str, object]:
    """Each pod has a link of its own, so all its packets are routed, also those to a Service with an endpoint on this node."""
    ranges = [[{"subnet": network.pod_range(index)}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}
    plugins = [{"type": "ptp", "mtu": 1500, "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}


def _kubelet(reserved: str, directory: Path) -> dict[str, object]:
    ca = str(directory.parent / "pki" / "ca.crt")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": ca}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "clusterDNS": [_DNS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "30s",
        "resolvConf": str(directory / "resolv.conf"),
        "staticPodPath": str(directory / "static"),
        "systemReserved": {"memory": reserved},
    }


def _kube_proxy(name: str, kubeconfig: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": "10.244.0.0/16",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
        "hostnameOverride": name,
        "mode": "nftables",
    }
