"""The network as UFM, the manager of an InfiniBand fabric, tells it: nodes on leaf switches, all of those under one spine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pyroclast.api.enums import MemberType
from pyroclast.lifecycle.hypernodes.discovered import Found

__all__ = ["SOURCE", "Port", "discover", "read_ports"]

SOURCE: Final = "ufm"
_COMPUTER: Final = "Computer"


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the fabric: which node it is of, and which switch is at the other end of the cable; None is as good as empty."""

    description: str | None = ""
    tier: int | str | None = None
    system_name: str | None = ""
    node_description: str | None = ""
    peer_node_name: str | None = ""


def read_ports(body: bytes) -> list[Port]:
    """The ports in an answer of UFM.

    Raises:
        ValueError: It is no list of ports.
    """
    try:
        return msgspec.json.decode(body, type=list[Port])
    except msgspec.DecodeError as error:
        raise ValueError(f"the answer of UFM is no list of ports: {error}") from None


def discover(ports: Sequence[Port]) -> list[Found]:
    """Leaf switches that share nodes, by way of others too, are one HyperNode of tier 1; tier 2 holds all of them."""
    leaves: dict[str, set[str]] = {}
    for port in ports:
        if _COMPUTER in (port.description or "") and port.peer_node_name and port.system_name:
            leaves.setdefault(port.peer_node_name, set()).add(port.system_name)
    groups = _joined(leaves[name] for name in sorted(leaves))
    found = [Found(f"leaf-hn-{number}", 1, tuple(sorted(nodes))) for number, nodes in enumerate(groups)]
    if found:
        found.append(Found("spine-hn", 2, tuple(each.name for each in found), MemberType.HYPER_NODE))
    return found


def _joined(leaves: Iterable[set[str]]) -> list[set[str]]:
    """The sets, those with a common element as one, in the order of their first."""
    groups: list[set[str]] = []
    for nodes in leaves:
        touching = [group for group in groups if group & nodes]
        if not touching:
            groups.append(set(nodes))
            continue
        first, *others = touching
        first |= nodes
        for other in others:
            first |= other
            groups.remove(other)
    return groups
