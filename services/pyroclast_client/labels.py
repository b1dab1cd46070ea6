"""Keys of labels and annotations that the client writes, and names that follow from the name of a Job."""

from __future__ import annotations

from typing import Final

__all__ = ["PAYLOAD", "RETURNS", "STORE", "SUBMISSION", "job_of_secret", "secret_name"]

SUBMISSION: Final = "client.pyroclast.dev/submission"
"""Annotation with the id of the submission that created the object. A repeated submission finds its own objects by it."""

PAYLOAD: Final = "client.pyroclast.dev/payload"
"""Label of the Secrets that carry functions and arguments. As an annotation of a Job, the name of the Job's Secret."""

SUFFIX: Final = "-code"

STORE: Final = "client.pyroclast.dev/store"
"""Annotation of Jobs with the URL of the store of their large results."""


RETURNS: Final = "client.pyroclast.dev/returns"
"""Annotation of JobFlows with the entry whose value is the result. `*ROUNDS` follows for a loop."""


def secret_name(job: str) -> str:
    """Return the name of the Secret of a Job."""
    return f"{job}{SUFFIX}"


def job_of_secret(secret: str) -> str:
    """Return the name of the Job of a Secret."""
    return secret.removesuffix(SUFFIX)
