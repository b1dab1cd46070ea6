"""Rules for variables of containers whose values come from files of the pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, invalid, not_found
from pyroclast.rules.podspecs.annotations import containers_of
from pyroclast.rules.values import mapping, mappings, text


def check_files(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check that variables from files use an emptyDir volume of the pod."""
    wanted = [
        (f"{where}.env[{at}].valueFrom.fileKeyRef.volumeName", text(mapping(reference).get("volumeName")))
        for where, container in containers_of(spec, path)
        for at, variable in mappings(container.get("env"))
        if (reference := mapping(variable.get("valueFrom")).get("fileKeyRef")) is not None
    ]
    if not wanted:
        return
    volumes = {text(each.get("name")): each for _, each in mappings(spec.get("volumes"))}
    for where, name in wanted:
        if name not in volumes:
            errors.append(not_found(where, name))
        elif volumes[name].get("emptyDir") is None:
            errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
