"""The form of an answer from `Accept`: whole objects, tables, metadata alone, or aggregated discovery. The format is JSON.

This is a separate module because `Accept` is parsed once and used in several places.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from pyroclast_standalone.apiserver.requests import status

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AVAILABLE: Final = (JSON, YAML, PROTOBUF)
STREAMS: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")


class Form(StrEnum):
    """The form of the answer that `as=` in an `Accept` header requests. The value is the kind of the answer."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class Wanted(msgspec.Struct, frozen=True):
    """The chosen clause of an `Accept` header."""

    form: Form = Form.OBJECT
    version: str = "v1"  # version of meta.k8s.io, for transformed answers


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types with their parameters, in the order of the header. Weights are ignored."""
    clauses = []
    for text in accept.split(","):
        media_type, *parameters = (part.strip() for part in text.split(";"))
        values = {name.strip(): value.strip() for name, _, value in (parameter.partition("=") for parameter in parameters)}
        if media_type:
            clauses.append((media_type.lower(), values))
    return clauses


@lru_cache(maxsize=256)
def wanted(accept: str, *, is_list: bool = False) -> Wanted:
    """Return the first supported clause of `accept`. Protobuf is never chosen, as clients that accept protobuf also accept JSON.

    Raises:
        StatusError: 406, no clause is supported.
    """
    if not accept:
        return Wanted()
    is_known = False
    for media_type, values in _clauses(accept):
        if media_type not in {JSON, "*/*"}:
            continue
        asked, version = values.get("as", ""), values.get("v", "")
        if not asked:
            return Wanted()
        is_known = True
        if asked in set(Form) and values.get("g") == "meta.k8s.io" and version in {"v1", "v1beta1"}:
            return Wanted(Form(asked), version)
    if is_known:
        message = f"only the following media types are accepted: {', '.join(_AVAILABLE)}"
        raise status.StatusError(406, "NotAcceptable", message)
    available = (*_AVAILABLE, *(STREAMS if is_list else ()))
    raise status.StatusError(
        406,
        "NotAcceptable",
        f"406: Not Acceptable\n\nAvailable representations: {', '.join(available)}",
        details={},
    )


@lru_cache(maxsize=64)
def discovery_version(accept: str) -> str:
    """Return the version of aggregated discovery (`v2` or `v2beta1`). Empty for the legacy documents."""
    for media_type, values in _clauses(accept or JSON):
        if media_type not in {JSON, "*/*", "application/*"}:
            continue
        if not values.get("as"):
            return ""
        if values["as"] == "APIGroupDiscoveryList" and values.get("g") == "apidiscovery.k8s.io":
            version = values.get("v", "")
            if version in {"v2", "v2beta1"}:
                return version
    return ""
