"""Converts submitted values to manifests, and makes names.

A submitted value is a model of `pyroclast.api`, a dict, the path of a YAML file, or YAML text.
"""

from __future__ import annotations

import copy
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS, ResourceType
from pyroclast_client.errors import Cause, Rejected, Usage

SUBMISSION: Final = "client.pyroclast.dev/submission"
"""Annotation with the id of the submission that created the object. A repeated submission finds its own objects by it."""

PAYLOAD: Final = "client.pyroclast.dev/payload"
"""Label of the Secrets that carry functions and arguments. As an annotation of a Job, the name of the Job's Secret."""

SUFFIX: Final = "-code"

STORE: Final = "client.pyroclast.dev/store"
"""Annotation of Jobs with the URL of the store of their large results."""

EXECUTOR: Final = "client.pyroclast.dev/executor"
"""Label of Jobs with the name of the executor that submitted them."""

SERIALIZER: Final = "client.pyroclast.dev/serializer"
"""Annotation of pod templates: `json` if the client must unpickle nothing that the pods return."""

RETURNS: Final = "client.pyroclast.dev/returns"
"""Annotation of JobFlows with the entry whose value is the result. `*ROUNDS` follows for a loop."""


def secret_name(job: str) -> str:
    """Return the name of the Secret of a Job."""
    return f"{job}{SUFFIX}"


def gives_json(spec: Mapping[str, Any]) -> bool:
    """Whether the pods of a Job with this spec return JSON, so that the client must unpickle nothing of them."""
    metadata = spec["tasks"][0]["template"].get("metadata") or {}
    return (metadata.get("annotations") or {}).get(SERIALIZER) == "json"


def job_of_secret(secret: str) -> str:
    """Return the name of the Job of a Secret."""
    return secret.removesuffix(SUFFIX)


Document: TypeAlias = dict[str, Any]

LETTERS: Final = "bcdfghjklmnpqrstvwxz0123456789"  # without vowels, so that no words arise
RANDOM_LETTERS: Final = 5
LONGEST_SUFFIX: Final = 10
LONGEST_NAME: Final = 40  # the names of the pods and of the Secret contain this name
KINDS: Final[tuple[ResourceType, ...]] = (JOBS, JOB_TEMPLATES, JOB_FLOWS)


@runtime_checkable
class _Model(Protocol):
    """A pydantic model."""

    def model_dump(self, *, by_alias: bool, exclude_none: bool, mode: str) -> dict[str, Any]: ...


Submittable: TypeAlias = Mapping[str, Any] | str | os.PathLike[str] | _Model


def documents_of(given: object) -> list[Document]:
    """Return the manifests in `given`, each with its kind and metadata."""
    if isinstance(given, Mapping):
        documents = [copy.deepcopy(dict(given))]
    elif isinstance(given, _Model):
        documents = [given.model_dump(by_alias=True, exclude_none=True, mode="json")]
    elif isinstance(given, str | os.PathLike):
        documents = _loaded(given)
    else:
        text = "a Job model, a dict, the path or text of a manifest, a task call such as `train.call(1)`, or a flow"
        raise Usage(f"submit: {type(given).__name__} cannot be submitted; give {text}")
    return [_complete(document, index if len(documents) > 1 else None) for index, document in enumerate(documents)]


def fresh_name(stem: str) -> str:
    """Return `stem` with five random letters: a name that is free and is known before the first request."""
    return stable_name(stem, "".join(secrets.choice(LETTERS) for _ in range(RANDOM_LETTERS)))


def stable_name(stem: str, suffix: str) -> str:
    """Return a valid object name from `stem` and the first letters of `suffix`."""
    clean = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:LONGEST_NAME].strip("-") or "job"
    if not clean[0].isalpha():
        clean = f"job-{clean}"
    return f"{clean}-{suffix[:LONGEST_SUFFIX]}"


def label_of(document: Mapping[str, Any]) -> str:
    """Return `Kind NAMESPACE/NAME` of an object, for messages."""
    metadata = document.get("metadata") or {}
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{document.get('kind', 'object')} {where}{metadata.get('name') or metadata.get('generateName') or ''}".strip()


def _loaded(given: str | os.PathLike[str]) -> list[Document]:
    import yaml  # noqa: PLC0415 - few programs submit files

    text, where = _text_of(given)
    try:
        parsed = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise Rejected(f"{where}: not YAML: {error}") from error
    if not parsed or not all(isinstance(each, dict) for each in parsed):
        raise Rejected(f"{where}: holds no manifest; a manifest is a mapping with apiVersion, kind, metadata and spec")
    return parsed


def _text_of(given: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text and its name in messages.

    A string with a line break, or with a key and a colon, is text. Any other string is the path of a file.
    """
    if isinstance(given, str) and ("\n" in given or re.match(r"\s*\{|[\w]+:(\s|$)", given)):
        return given, "the text"
    path = Path(given).expanduser()
    try:
        return path.read_text(), str(path)
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}; give the path of a manifest, or its text") from error


def _complete(document: Document, index: int | None) -> Document:
    where = "" if index is None else f"[{index}]"
    document.setdefault("apiVersion", JOBS.api_version)
    document.setdefault("kind", JOBS.kind)
    kind_of(document, where)
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise Rejected(f"metadata{where}: must be an object", [Cause(f"metadata{where}", "must be an object")])
    document["metadata"] = dict(metadata or {})
    document.pop("status", None)
    return document


def kind_of(document: Mapping[str, Any], where: str = "") -> ResourceType:
    """Return the resource type of a manifest."""
    for kind in KINDS:
        if (document.get("apiVersion"), document.get("kind")) == (kind.api_version, kind.kind):
            return kind
    known = ", ".join(f"{kind.kind} of {kind.api_version}" for kind in KINDS)
    text = f"{document.get('kind')} of {document.get('apiVersion')} cannot be submitted; it must be {known}"
    raise Rejected(f"kind{where}: {text}", [Cause(f"kind{where}", text)])
