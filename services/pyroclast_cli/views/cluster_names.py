"""Completes a word with names in the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from pyroclast.api.types import NODES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import ConfigError, configuration_files
from pyroclast_cli.cluster import connected
from pyroclast_cli.views.completing import Place

MOST: int = 500
"""Most names that are requested, because a shell shows no more usefully."""


async def names_for(place: Place) -> Sequence[str]:
    """Return the names that can complete the word.

    When the server does not answer, the result is empty: no error is shown while the user types.
    """
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
    """Return the contexts of kubeconfig files. An unreadable file has none."""
    found: list[str] = []
    for file in files:
        try:
            document = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        listed = document.get("contexts") if isinstance(document, dict) else None
        found += [str(each["name"]) for each in listed or () if isinstance(each, dict) and each.get("name")]
    return found
