"""Creates objects on servers of any version. Fields that an older server does not know are omitted, with a warning."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable
from typing import Any, Final

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError
from pyroclast.kube.http.client import Client
from pyroclast_client.documents import Document, label_of
from pyroclast_client.errors import PyroclastWarning

BAD_REQUEST: Final = 400

_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


async def create(kube: Client, kind: ResourceType, document: Document, *, dry_run: bool = False) -> Document:
    """Create an object that our schema has accepted. A field that the server does not know is therefore newer than the server.

    Raises:
        KubeError: the server rejects the object or does not answer.
    """
    try:
        return await kube.create(kind, document, dry_run=dry_run, strict=True)
    except ApiError as error:
        unknown = unknown_fields(error.message) if error.status == BAD_REQUEST else []
        if not unknown:
            raise
    fields = ", ".join(unknown)
    text = f"{label_of(document)}: this server does not know {fields}, which is left out; upgrade Pyroclast there to have it"
    warnings.warn(text, PyroclastWarning, stacklevel=2)
    return await kube.create(kind, without(document, unknown), dry_run=dry_run, strict=True)


def unknown_fields(message: str) -> list[str]:
    """Return the paths of the unknown fields in an error message of the server."""
    return list(dict.fromkeys(_UNKNOWN.findall(message)))


def without(document: Document, paths: Iterable[str]) -> Document:
    """Return a copy of the object without the fields at these paths, such as `spec.tasks[0].retry`."""
    kept = copy.deepcopy(document)
    for path in paths:
        steps: list[Any] = [name or int(number) for name, number in _STEP.findall(path)]
        holder: Any = kept
        for step in steps[:-1]:
            holder = holder[step]
        holder.pop(steps[-1], None)
    return kept
