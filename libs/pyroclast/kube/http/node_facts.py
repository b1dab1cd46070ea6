"""What the nodes of a cluster say to a program that submits Jobs: whether they run commands, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import orjson

from pyroclast.api.types import NODES
from pyroclast.kube.basics.addresses import is_local_name

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # the caller has loaded this module

GPU_PRODUCT: Final = "nvidia.com/gpu.product"
PROCESSES, SIMULATED = "pyroclast://process", "pyroclast://simulated"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the nodes of a cluster say.

    Attributes:
        is_simulated: the nodes only pretend to run commands.
        is_here: the nodes run commands as processes of this machine.
        products: the values of the label of GPU products.
    """

    is_simulated: bool = False
    is_here: bool = False
    products: tuple[str, ...] = ()


async def node_facts(client: Client, *, all_nodes: bool) -> NodeFacts:
    """Return what one node, or all nodes, say. Raises KubeError: the account may not read nodes, or nobody answers."""
    if all_nodes:
        nodes, _ = await client.list(NODES)
    else:
        nodes = orjson.loads(await client.list_page(NODES, "", {"limit": "1"})).get("items") or []
    runtimes = {((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion") for node in nodes}
    products = {(node["metadata"].get("labels") or {}).get(GPU_PRODUCT, "") for node in nodes} - {""}
    is_near = is_local_name(urlsplit(client.config.server).netloc)
    return NodeFacts(SIMULATED in runtimes, is_near and PROCESSES in runtimes, tuple(sorted(products)))
