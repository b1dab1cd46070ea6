"""The OpenAPI definitions of the built-in kinds of Kubernetes 1.36, as checked-in data that is loaded at its first use.

Pyroclast's own models keep pod templates and claims as raw JSON. Code that needs the schema of a pod (CRD generation, rules, the
embedded server) finds it here. `python -m pyroclast.api.builtin` generates the data again.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

KUBERNETES_VERSION: Final = "1.36"
DEFINITIONS_FILE: Final = "definitions.json.xz"
STRUCTURAL_FILE: Final = "structural.json.xz"

POD_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
PVC_SPEC: Final = "io.k8s.api.core.v1.PersistentVolumeClaimSpec"
LABEL_SELECTOR: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"


def _load(file: str) -> dict[str, Any]:
    packed = resources.files(__name__).joinpath("data", file).read_bytes()
    loaded: dict[str, Any] = json.loads(lzma.decompress(packed))
    return loaded


@cache
def definitions() -> Mapping[str, Any]:
    """Return all definitions by name (`io.k8s.api.core.v1.Pod`), in the form of an OpenAPI v3 document.

    A reference is `{"$ref": "#/components/schemas/NAME"}`, with the description of the field beside it. The `x-kubernetes-*`
    extensions are included. The value is shared: do not change it.
    """
    return _load(DEFINITIONS_FILE)


@cache
def enumerations() -> Mapping[str, Any]:
    """Return the values that a field of a definition may have (`io.k8s.api.core.v1.PodSpec.restartPolicy`), as in `/openapi/v3`.

    The name of a list's items is the field followed by `[]`; that of a map's values is the field followed by `{}`.
    """
    return _load("enumerations.json.xz")


@cache
def _names_by_kind() -> Mapping[tuple[str, str, str], str]:
    names: dict[tuple[str, str, str], str] = {}
    for name, schema in definitions().items():
        kinds = schema.get("x-kubernetes-group-version-kind", ())
        if len(kinds) == 1:  # DeleteOptions and WatchEvent are in every group and belong to no kind
            kind = kinds[0]
            names[kind["group"], kind["version"], kind["kind"]] = name
    return names


def definition_of(group: str, version: str, kind: str) -> Mapping[str, Any] | None:
    """Return the definition of a kind; None when the kind is not built in. The group of core kinds is empty."""
    name = _names_by_kind().get((group, version, kind))
    return None if name is None else definitions()[name]


@cache
def _structural() -> Mapping[str, Any]:
    return _load(STRUCTURAL_FILE)


def structural_schema(name: str) -> Mapping[str, Any]:
    """Return `POD_TEMPLATE`, `PVC_SPEC` or `LABEL_SELECTOR` as a structural schema: no references, no descriptions, with a CRD's
    defaults. Shared, do not change.
    """
    schema: Mapping[str, Any] = _structural()[name]
    return schema
