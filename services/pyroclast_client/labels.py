"""Keys of labels and annotations that the client writes, and names that follow from a Job's."""

from __future__ import annotations

from typing import Final

__all__ = ["PAYLOAD", "RETURNS", "STORE", "SUBMISSION", "job_of_secret", "secret_name"]

SUBMISSION: Final = "client.pyroclast.dev/submission"
"""Annotation: which submission made the object. The same submission, sent again, finds its own."""

PAYLOAD: Final = "client.pyroclast.dev/payload"
"""Label of the Secrets that carry functions and arguments; annotation of Jobs: the name of theirs."""

SUFFIX: Final = "-code"

STORE: Final = "client.pyroclast.dev/store"
"""Annotation of Jobs: where their large results are."""


RETURNS: Final = "client.pyroclast.dev/returns"
"""Annotation of JobFlows: the entry whose value is the result, with `*ROUNDS` for a loop."""


def secret_name(job: str) -> str:
    """The name of the Secret of a Job."""
    return f"{job}{SUFFIX}"


def job_of_secret(secret: str) -> str:
    """The name of the Job of a Secret."""
    return secret.removesuffix(SUFFIX)
