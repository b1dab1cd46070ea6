"""Rules for ephemeral containers, which are added to a running pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, duplicate, forbidden, not_found
from pyroclast.rules.podspecs.containers import Surroundings, check_common, check_image
from pyroclast.rules.values import mappings, text

_NEVER: Final = ("ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_DETAIL: Final = "cannot be set for an Ephemeral Container"


def check_ephemeral_containers(spec: Mapping[str, Any], path: str, errors: list[FieldError], around: Surroundings) -> None:
    """Check the ephemeral containers of the pod, at `path`."""
    others = {text(each.get("name")) for field in ("containers", "initContainers") for _, each in mappings(spec.get(field))}
    seen = set(others)
    for index, container in mappings(spec.get("ephemeralContainers")):
        where = f"{path}[{index}]"
        check_common(container, where, errors, around)
        check_image(container, where, errors)
        name, target = text(container.get("name")), text(container.get("targetContainerName"))
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{where}.targetContainerName", target))
        errors += [forbidden(f"{where}.{field}", _DETAIL) for field in _NEVER if container.get(field)]
        for at, mount in mappings(container.get("volumeMounts")):
            errors += [
                forbidden(f"{where}.volumeMounts[{at}].{field}", _DETAIL)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
