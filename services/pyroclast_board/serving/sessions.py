"""Sessions: a user's token, sealed in a cookie, so that the board keeps nothing and any replica can read it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["COOKIE", "LONGEST_TOKEN", "Sessions"]

COOKIE: Final = "__Host-pyroclast"
"""Browsers take a cookie of this name only from the host itself, over a safe connection."""

LONGEST_TOKEN: Final = 2900
"""A cookie may have 4,096 bytes, and sealing adds a third."""

NONCE_BYTES: Final = 12
PURPOSE: Final = b"pyroclast board session 1"


class _Session(msgspec.Struct, frozen=True, array_like=True):
    token: str
    begun: float


class Sessions:
    """Seals and opens.

    Args:
        key: any secret bytes, the same for all replicas.
        lifetime: seconds after which a session is over.
    """

    def __init__(self, key: bytes, lifetime: float) -> None:
        self._cipher = AESGCM(hashlib.sha256(PURPOSE + key).digest())
        self._lifetime = lifetime

    def seal(self, token: str, now: float) -> str:
        """The value of the cookie."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(_Session(token, now)), PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def open(self, cookie: str, now: float) -> str | None:
        """The token of a cookie; None for one that we did not seal, or whose time is over."""
        try:
            raw = base64.urlsafe_b64decode(cookie)
            content = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], PURPOSE)
            session = msgspec.json.decode(content, type=_Session)
        except (InvalidTag, ValueError, binascii.Error, msgspec.MsgspecError):
            return None
        return session.token if session.begun <= now + 60 and now < session.begun + self._lifetime else None
