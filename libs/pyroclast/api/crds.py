"""CustomResourceDefinitions of Pyroclast's kinds, generated from the models."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pyroclast.api import (
    colocationconfigurations,
    commands,
    cronjobs,
    hyperjobs,
    hypernodes,
    jobflows,
    jobs,
    jobtemplates,
    nodeshards,
    numatopologies,
    podgroups,
    queues,
)
from pyroclast.api.kinds import Column, CustomKind
from pyroclast.api.structure import structural_schema

KINDS: Final[tuple[CustomKind, ...]] = (
    jobs.KIND,
    cronjobs.KIND,
    commands.KIND,
    podgroups.KIND,
    queues.KIND,
    jobflows.KIND,
    jobtemplates.KIND,
    hypernodes.KIND,
    numatopologies.KIND,
    nodeshards.KIND,
    colocationconfigurations.KIND,
    hyperjobs.KIND,
)


@cache
def custom_resource_definitions() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of all kinds, in the form that `kubectl create` accepts. The value is shared: change only a copy."""
    return tuple(custom_resource_definition(kind) for kind in KINDS)


def custom_resource_definition(kind: CustomKind) -> dict[str, Any]:
    """Return the CRD of one kind. The CRD and its objects stay when the helm release that created it is uninstalled."""
    version: dict[str, Any] = {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": structural_schema(kind.model)},
        "subresources": {"status": {}} if kind.has_status else {},
    }
    if kind.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in kind.columns]
    names: dict[str, Any] = {
        "kind": kind.resource.kind,
        "listKind": f"{kind.resource.kind}List",
        "plural": kind.resource.plural,
        "singular": kind.resource.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource.qualified, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": kind.resource.group,
            "names": names,
            "scope": "Namespaced" if kind.resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | {"priority": column.priority} if column.priority else shown
