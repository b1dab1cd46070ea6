"""`python -m tests.unit.apiserver_documents.wire_table DIR…`: writes the table of messages anew.

Each DIR is a module directory with declarations of API types (`k8s.io/api`, `k8s.io/apimachinery`,
`k8s.io/apiextensions-apiserver` as a Go module cache holds them). Read are struct declarations and their field tags.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyroclast_standalone.apiserver.documents.wire import TABLE_FILE

_MODULES: Final = {
    "k8s.io/api": "io.k8s.api",
    "k8s.io/apimachinery": "io.k8s.apimachinery",
    "k8s.io/apiextensions-apiserver": "io.k8s.apiextensions-apiserver",
}
_PACKAGES: Final = re.compile(r"^([a-z]+/v[0-9a-z]+|pkg/apis/meta/v1|pkg/apis/apiextensions/v1)$")
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"^type (\w+) =? ?((?:\[\]|map\[\w+\])?(?:(\w+)\.)?\w+)$", re.MULTILINE)
_EMPTY: Final = re.compile(r"^type (\w+) struct ?\{\}$", re.MULTILINE)
_FIELD: Final = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*)`", re.MULTILINE)
_TAG: Final = re.compile(r'(\w+):"([^"]*)"')
_IMPORT: Final = re.compile(r'^\s*(?:import )?(\w+)? ?"([\w./-]+)"$', re.MULTILINE)
_SCALARS: Final = {"string", "int32", "int64", "bool", "float64", "byte", "int", "uint8", "int16", "uint32", "uint64"}


def _definition_package(import_path: str) -> str:
    for module, prefix in _MODULES.items():
        if import_path == module or import_path.startswith(f"{module}/"):
            return prefix + import_path[len(module) :].replace("/", ".")
    return import_path.replace("/", ".")


def _sources(root: Path) -> Iterator[tuple[str, str]]:
    """(package as definitions name it, text) of every file with declarations."""
    module = "k8s.io/" + root.name.partition("@")[0]
    for path in sorted(root.rglob("*.go")):
        folder = path.parent.relative_to(root).as_posix()
        generated = path.name.startswith(("zz_", "generated", "types_swagger")) or path.name.endswith("_test.go")
        if _PACKAGES.match(folder) and not generated:
            yield _definition_package(f"{module}/{folder}"), path.read_text()


def _resolver(package: str, text: str) -> dict[str, str]:
    imports = {}
    for alias, path in _IMPORT.findall(text):
        imports[alias or path.rpartition("/")[2]] = _definition_package(path)
    imports[""] = package
    return imports


def _type(expression: str, imports: dict[str, str]) -> tuple[str, str, bool]:
    """(type, container, pointer) of a Go type expression."""
    pointer = expression.startswith("*")
    expression = expression.lstrip("*")
    container = ""
    if expression == "[]byte":
        return "bytes", "", pointer
    if expression.startswith("[]"):
        container, expression = "list", expression[2:].lstrip("*")
    elif expression.startswith("map["):
        container, expression = "map", expression.partition("]")[2].lstrip("*")
        if expression == "[]byte":
            return "bytes", container, pointer
    if expression in _SCALARS:
        return expression, container, pointer
    package, _, name = expression.rpartition(".")
    return f"{imports[package]}.{name}", container, pointer


def _fields(body: str, imports: dict[str, str]) -> Iterator[list[object]]:
    for _, expression, tags in _FIELD.findall(body):
        tag = dict(_TAG.findall(tags))
        name, *options = tag.get("json", "").split(",")
        if name == "-" or "json" not in tag:
            continue
        kind, container, pointer = _type(expression, imports)
        parts = tag.get("protobuf", "").split(",")
        number = int(parts[1]) if len(parts) > 1 else 0
        flags = ("p" if pointer else "") + ("o" if "omitempty" in options else "") + ("z" if "omitzero" in options else "")
        yield [name, number, kind, container, flags]


def generate(roots: list[Path]) -> dict[str, object]:
    """The content of the table."""
    messages: dict[str, object] = {}
    named: dict[str, object] = {}
    for root in roots:
        for package, text in _sources(root):
            imports = _resolver(package, text)
            for name, body in _STRUCT.findall(text):
                if fields := list(_fields(body, imports)):
                    messages[f"{package}.{name}"] = fields
            for name in _EMPTY.findall(text):
                messages[f"{package}.{name}"] = []
            for name, expression, origin in _NAMED.findall(text):
                if origin in imports and expression not in {"struct", "interface"}:
                    kind, container, _ = _type(expression, imports)
                    named[f"{package}.{name}"] = [kind, container]
    return {"messages": messages, "named": named}


def main() -> int:
    """Writes the table from the directories given as arguments."""
    table = generate([Path(argument) for argument in sys.argv[1:]])
    text = json.dumps(table, sort_keys=True, separators=(",", ":"))
    (Path(__file__).parent / "data" / TABLE_FILE).write_bytes(lzma.compress(text.encode(), preset=9))
    return 0


if __name__ == "__main__":
    sys.exit(main())
