"""The network topology from UFM, the manager of an InfiniBand fabric: nodes on leaf switches, and all leaf switches under one
spine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pyroclast.api.enums import MemberType
from pyroclast.lifecycle.hypernodes.discovered import Found

SOURCE: Final = "ufm"
_COMPUTER: Final = "Computer"


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port of the fabric: its node, and the switch at the other end of the cable. None means the same as an empty text."""

    description: str | None = ""
    tier: int | str | None = None
    system_name: str | None = ""
    node_description: str | None = ""
    peer_node_name: str | None = ""


def read_ports(body: bytes) -> list[Port]:
    """Return the ports in a response of UFM.

    Raises:
        ValueError: The response is not a list of ports.
    """
    try:
        return msgspec.json.decode(body, type=list[Port])
    except msgspec.DecodeError as error:
        raise ValueError(f"the answer of UFM is no list of ports: {error}") from None


def discover(ports: Sequence[Port]) -> list[Found]:
    """Return the HyperNodes. Leaf switches that share nodes, directly or through other switches, form one HyperNode of tier 1.

    The HyperNode of tier 2 contains all HyperNodes of tier 1.
    """
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
    """Merge the sets that share an element, directly or through other sets, in the order of their first set."""
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
