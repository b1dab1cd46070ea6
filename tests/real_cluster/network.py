"""The networks of the nodes: a bridge, and for each node a network namespace with routes to the pods of the others.

The machine has one address on the bridge, from which `kubectl` reaches the API server; nothing listens there.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

__all__ = ["BRIDGE", "address", "make", "namespace", "pod_range", "remove", "run"]

BRIDGE = "pyr0"
_NODES = "10.90.0"


def address(index: int) -> str:
    """The address of node `index`, from 1."""
    return f"{_NODES}.{10 + index}"


def pod_range(index: int) -> str:
    """The addresses of the pods of node `index`."""
    return f"10.244.{index}.0/24"


def namespace(index: int) -> str:
    """The name of the network namespace of node `index`."""
    return f"pyr-{index}"


def run(command: str, *more: str, check: bool = True) -> str:
    """Run a command, split at spaces, and return what it prints.

    Raises:
        RuntimeError: the command failed, with what it said.
    """
    arguments = [*command.split(), *more]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if check and ended.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {ended.stderr.strip() or ended.stdout.strip()}")
    return ended.stdout


def make(indexes: Sequence[int]) -> None:
    """Make the bridge and the namespaces of the nodes.

    Raises:
        RuntimeError: there is such a cluster already, or this machine allows no bridge.
    """
    if BRIDGE in _links():
        raise RuntimeError(
            f"the bridge {BRIDGE} exists: a real cluster runs here already; end it with `python -m tests.real_cluster down`"
        )
    run(f"ip link add {BRIDGE} type bridge")
    run(f"ip addr add {_NODES}.1/24 dev {BRIDGE}")
    run(f"ip link set {BRIDGE} up")
    for index in indexes:
        name = namespace(index)
        run(f"ip netns add {name}")
        run(f"ip link add pyr-v{index} type veth peer name eth0 netns {name}")
        run(f"ip link set pyr-v{index} master {BRIDGE} up")
        for command in (
            "ip link set lo up",
            f"ip addr add {address(index)}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {_NODES}.1",
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0",
            *(f"ip route add {pod_range(other)} via {address(other)}" for other in indexes if other != index),
        ):
            run(f"ip netns exec {name} {command}")


def remove() -> None:
    """Remove the bridge and the namespaces that `make` made."""
    for line in run("ip -j netns", check=False) and json.loads(run("ip -j netns") or "[]"):
        if line["name"].startswith("pyr-"):
            run(f"ip netns delete {line['name']}")
    if BRIDGE in _links():
        run(f"ip link delete {BRIDGE}")


def _links() -> set[str]:
    return {link["ifname"] for link in json.loads(run("ip -j link"))}
