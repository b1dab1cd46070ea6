"""Tokens of service accounts: JWTs signed with the server's secret, bound to the account and optionally to a pod."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import uuid
from collections.abc import Mapping
from typing import Any, Final

import orjson

ISSUER: Final = "https://localhost"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}


class InvalidToken(Exception):
    """The token has a wrong signature, or is not valid at this time."""


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))


class TokenSigner:
    """Issues and verifies tokens. Only this server verifies them, so that one symmetric secret is enough."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def issue(
        self,
        account: Mapping[str, Any],
        *,
        now: float,
        seconds: int,
        audiences: list[str] | None = None,
        bound: Mapping[str, Any] | None = None,
    ) -> str:
        """Return a token for the ServiceAccount `account`, valid for `seconds` and until the object `bound` is deleted."""
        metadata = account["metadata"]
        private: dict[str, Any] = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound:
            private[str(bound["kind"]).lower()] = {"name": bound["metadata"]["name"], "uid": bound["metadata"]["uid"]}
        claims = {
            "aud": audiences or [ISSUER],
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": int(now),
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        content = _encode(orjson.dumps(_HEADER)) + b"." + _encode(orjson.dumps(claims))
        return (content + b"." + _encode(self._sign(content))).decode()

    def read(self, token: str, *, now: float) -> dict[str, Any]:
        """Return the claims of `token`.

        Raises:
            InvalidToken: the signature is wrong, or the token is not valid at this time.
        """
        try:
            content, _, signature = token.encode().rpartition(b".")
            if not hmac.compare_digest(_decode(signature), self._sign(content)):
                raise InvalidToken("bad signature")
            claims: dict[str, Any] = orjson.loads(_decode(content.partition(b".")[2]))
        except (binascii.Error, ValueError) as error:
            raise InvalidToken(str(error)) from None
        if not claims["nbf"] - 10 <= now < claims["exp"]:
            raise InvalidToken("token is not valid at this time")
        return claims

    def _sign(self, content: bytes) -> bytes:
        return hmac.new(self._secret, content, hashlib.sha256).digest()
