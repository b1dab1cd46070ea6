"""CustomResourceDefinitions of our kinds, drawn from the models. `python -m pyroclast.api.crds DIR` writes one file for each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api import (
    colocationconfigurations,
    commands,
    cronjobs,
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

__all__ = ["KINDS", "custom_resource_definition", "custom_resource_definitions", "main", "render"]

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
)


_BUILT_IN: Final = ("template", "volumeClaim")


def custom_resource_definitions() -> list[dict[str, Any]]:
    """The CRDs of all our kinds, as `kubectl create` takes them."""
    return [custom_resource_definition(kind) for kind in KINDS]


def custom_resource_definition(kind: CustomKind) -> dict[str, Any]:
    """The CRD of one kind. It outlives the helm release that made it, and so do its objects."""
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


def render(definition: dict[str, Any]) -> str:
    """The CRD as YAML, as it is checked in: schemas of built-in kinds stand on one line, since nobody reads them there."""
    return yaml.dump(definition, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)


class _Dumper(yaml.SafeDumper):
    """Writes what is under the properties that hold built-in schemas in flow style, and shared parts in full."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _represent_dict(dumper: yaml.SafeDumper, data: dict[str, Any]) -> yaml.MappingNode:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False)
    for key, value in node.value:
        if key.value in _BUILT_IN and isinstance(value, yaml.MappingNode):
            value.flow_style = True
    return node


_Dumper.add_representer(dict, _represent_dict)


def main(arguments: list[str]) -> None:
    """Write `GROUP_PLURAL.yaml` for each kind into the folder given."""
    folder = Path(arguments[0])
    for definition in custom_resource_definitions():
        spec = definition["spec"]
        (folder / f"{spec['group']}_{spec['names']['plural']}.yaml").write_text(render(definition))


if __name__ == "__main__":
    main(sys.argv[1:])
