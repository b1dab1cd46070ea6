"""`python -m pyroclast.api.builtin`: generates the checked-in definitions from the package `kubernetes-validate`."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pyroclast.api.builtin import DEFINITIONS_FILE, KUBERNETES_VERSION, LABEL_SELECTOR, POD_TEMPLATE, PVC_SPEC, STRUCTURAL_FILE
from pyroclast.api.builtin.structural import structural

_OVERRIDES: Mapping[str, Mapping[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "description": "A fixed-point number with an optional suffix, such as 250m, 1.5Gi or 3e6.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "description": "An integer, or a string such as a percentage or a port name.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}


def generate() -> dict[str, dict[str, Any]]:
    """Return the content of each data file by its name. Needs the development dependency `kubernetes-validate`."""
    import kubernetes_validate  # noqa: PLC0415  # a development dependency; nothing else of this module needs it

    folder = resources.files(kubernetes_validate) / "kubernetes-json-schema" / f"v{KUBERNETES_VERSION}.0-local"
    source = json.loads((folder / "_definitions.json").read_text())["$defs"]
    definitions = {name: dict(_OVERRIDES[name]) if name in _OVERRIDES else _clean(source[name]) for name in sorted(source)}
    embedded = {name: structural(name, definitions) for name in (POD_TEMPLATE, PVC_SPEC, LABEL_SELECTOR)}
    return {DEFINITIONS_FILE: definitions, STRUCTURAL_FILE: embedded}


def _clean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as Kubernetes publishes it: the source allows null for every optional field, and fixes apiVersion and
    kind.
    """
    result: dict[str, Any] = {}
    for key, value in sorted(schema.items()):
        match key, value:
            case "type", list():
                (result[key],) = (name for name in value if name != "null")
            case "$ref", str():
                result[key] = "#/components/schemas/" + value.rpartition("/")[2]
            case "properties", dict():
                result[key] = {field: _clean(inner) for field, inner in sorted(value.items())}
                for field in ("apiVersion", "kind"):
                    result[key].get(field, {}).pop("enum", None)
            case (("items" | "additionalProperties"), dict()):
                result[key] = _clean(value)
            case _:
                result[key] = value
    return result


def main() -> None:
    """Write the data files about built-in kinds into the folder `data` beside this module."""
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    for name, content in generate().items():
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
        (folder / name).write_bytes(lzma.compress(text, preset=9))


if __name__ == "__main__":
    main()
