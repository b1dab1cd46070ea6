"""The names in the cluster that complete a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from pyroclast.api.types import NODES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import ConfigError, configuration_files
from pyroclast_cli.cluster import connected
from pyroclast_cli.views.completing import Place

__all__ = ["names_for"]

MOST: int = 500
"""Names that are asked for: nobody reads more in a shell."""


async def names_for(place: Place) -> Sequence[str]:
    """The names that may stand there; none where the server cannot be asked: nobody reads of it while typing."""
    values = place.values
    kubeconfig = values.get("kubeconfig", "")
    try:
        if place.wants_context:
            return _contexts(configuration_files(kubeconfig))
        async with connected(kubeconfig, values.get("master", ""), values.get("context", "")) as client:
            if place.label_of_nodes:
                nodes, _ = await client.list(NODES)
                return sorted({label for node in nodes for label in node["metadata"].get("labels") or {}})
            if place.kind is None:
                return ()
            namespace = values.get("namespace") or client.config.namespace
            objects, _ = await client.list(place.kind, namespace if place.kind.namespaced else "", limit=MOST)
    except (ConfigError, KubeError):
        return ()
    return [f"{place.slash}{each['metadata']['name']}" for each in objects]


def _contexts(files: Sequence[Path]) -> list[str]:
    """The contexts of kubeconfig files; those that cannot be read have none."""
    found: list[str] = []
    for file in files:
        try:
            document = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        listed = document.get("contexts") if isinstance(document, dict) else None
        found += [str(each["name"]) for each in listed or () if isinstance(each, dict) and each.get("name")]
    return found
