"""The CRDs as files: `python -m pyroclast.api.crd_files DIR` writes the checked-in file of each kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api.crds import custom_resource_definitions

_BUILT_IN: Final = ("template", "volumeClaim")  # properties with the schemas of built-in kinds


def file_name(definition: dict[str, Any]) -> str:
    """Return the file name of a CRD, `GROUP_PLURAL.yaml`."""
    return f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml"


def render(definition: dict[str, Any]) -> str:
    """Return the CRD as YAML. Schemas of built-in kinds are on one line, because nobody reads them in these files."""
    return yaml.dump(definition, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)


class _Dumper(yaml.SafeDumper):
    """Writes schemas of built-in kinds in flow style, and shared parts in full each time."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _represent_dict(dumper: yaml.SafeDumper, data: dict[str, Any]) -> yaml.MappingNode:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False)
    for key, value in node.value:
        if key.value in _BUILT_IN and isinstance(value, yaml.MappingNode):
            value.flow_style = True
    return node


_Dumper.add_representer(dict, _represent_dict)


def main(folder: Path) -> None:
    """Write all CRDs into `folder`."""
    for definition in custom_resource_definitions():
        (folder / file_name(definition)).write_text(render(definition))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
