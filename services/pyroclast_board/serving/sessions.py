"""Login sessions: the user's token, sealed in a cookie, so that the board stores nothing and every replica can open it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

COOKIE: Final = "__Host-pyroclast"
"""Browsers accept a cookie with this prefix only from the host itself, over a secure connection."""

LONGEST_TOKEN: Final = 2900
"""Most characters of a token. A cookie may have 4,096 bytes, and sealing adds a third."""

NONCE_BYTES: Final = 12
PURPOSE: Final = b"pyroclast board session 1"


class _Session(msgspec.Struct, frozen=True, array_like=True):
    token: str
    begun: float


class Sessions:
    """Seals and opens cookies.

    Args:
        key: secret bytes, equal on all replicas.
        lifetime: seconds after which a login session ends.
    """

    def __init__(self, key: bytes, lifetime: float) -> None:
        self._cipher = AESGCM(hashlib.sha256(PURPOSE + key).digest())
        self._lifetime = lifetime

    def seal(self, token: str, now: float) -> str:
        """Return the value of the cookie for a token."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(_Session(token, now)), PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def open(self, cookie: str, now: float) -> str | None:
        """Return the token of a cookie. None when the cookie was not sealed with this key or has expired."""
        try:
            raw = base64.urlsafe_b64decode(cookie)
            content = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], PURPOSE)
            session = msgspec.json.decode(content, type=_Session)
        except (InvalidTag, ValueError, binascii.Error, msgspec.MsgspecError):
            return None
        return session.token if session.begun <= now + 60 and now < session.begun + self._lifetime else None
