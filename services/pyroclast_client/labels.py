"""Keys of labels and annotations that the client writes, and names that follow from the name of a Job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SUBMISSION: Final = "client.pyroclast.dev/submission"
"""Annotation with the id of the submission that created the object. A repeated submission finds its own objects by it."""

PAYLOAD: Final = "client.pyroclast.dev/payload"
"""Label of the Secrets that carry functions and arguments. As an annotation of a Job, the name of the Job's Secret."""

SUFFIX: Final = "-code"

STORE: Final = "client.pyroclast.dev/store"
"""Annotation of Jobs with the URL of the store of their large results."""

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
