"""Protobuf bodies as kubectl 1.32 and newer send them, decoded to the JSON form."""

from __future__ import annotations

from typing import Any

__all__ = ["decode"]


def decode(body: bytes, *, kind: str = "") -> dict[str, Any]:
    """The object in a body of type `application/vnd.kubernetes.protobuf`.

    Args:
        body: The magic number and the envelope.
        kind: What the route expects where the envelope may not be trusted: `DeleteOptions` is the same in every group.

    Raises:
        UnsupportedBody: a kind without a field table; the text says how to send it as JSON.
        Undecodable: no such envelope, or damaged content.
    """
    raise NotImplementedError
