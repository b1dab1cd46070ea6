"""Which form an answer takes: JSON or YAML, whole objects, tables, metadata alone, or aggregated discovery.

Separate because `Accept` is read in one place and obeyed in several.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from . import status

__all__ = ["JSON", "PROTOBUF", "STREAMS", "YAML", "Form", "Wanted", "discovery_version", "wanted"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AVAILABLE: Final = (JSON, YAML, PROTOBUF)
STREAMS: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")


class Form(StrEnum):
    """The transformation asked for by `as=`; the value is the kind that answers."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class Wanted(msgspec.Struct, frozen=True):
    """The chosen clause of an `Accept` header."""

    media_type: str = JSON
    form: Form = Form.OBJECT
    version: str = "v1"  # of meta.k8s.io, for tables and metadata

    @property
    def content_type(self) -> str:
        """What goes into the Content-Type of the answer."""
        return self.media_type


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    clauses: list[tuple[float, int, str, dict[str, str]]] = []
    for position, text in enumerate(accept.split(",")):
        media_type, *parameters = (part.strip() for part in text.split(";"))
        if not media_type:
            continue
        values = {name.strip(): value.strip() for name, _, value in (parameter.partition("=") for parameter in parameters)}
        try:
            quality = float(values.pop("q", "1"))
        except ValueError:
            quality = 1.0
        clauses.append((-quality, position, media_type.lower(), values))
    clauses.sort(key=lambda clause: clause[:2])
    return [(media_type, values) for _, _, media_type, values in clauses]


@lru_cache(maxsize=256)
def wanted(accept: str, *, allow_forms: bool = True, is_list: bool = False) -> Wanted:
    """The first clause of `accept` that can be answered. Protobuf is never chosen: whoever asks for it also takes JSON.

    Raises:
        StatusError: 406, nothing that is accepted is available.
    """
    if not accept:
        return Wanted()
    is_known = False
    for media_type, values in _clauses(accept):
        chosen = _media_type(media_type)
        if chosen is None:
            continue
        asked, version = values.get("as", ""), values.get("v", "")
        if not asked:
            return Wanted(chosen)
        is_known = True
        is_form = asked in set(Form) and values.get("g") == "meta.k8s.io" and version in {"v1", "v1beta1"}
        if allow_forms and is_form:
            return Wanted(chosen, Form(asked), version)
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


def _media_type(accepted: str) -> str | None:
    if accepted in {JSON, "*/*"}:
        return JSON
    return YAML if accepted in {YAML, "application/x-yaml", "text/yaml"} else None


@lru_cache(maxsize=64)
def discovery_version(accept: str) -> str:
    """Version of aggregated discovery to answer with (`v2` or `v2beta1`); empty for the legacy documents."""
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
