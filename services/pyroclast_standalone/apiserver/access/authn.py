"""Authentication: client certificates, tokens of service accounts, which are signed here, and impersonation."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import orjson

from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import ANONYMOUS, User
from pyroclast_standalone.apiserver.storage.store import Store

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
        """Return the claims of `token`. Raises InvalidToken: the signature is wrong, or the token is not valid at this time."""
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


AUTHENTICATED: Final = "system:authenticated"
_EXTRA: Final = "authentication.kubernetes.io/"


class Peer(Protocol):
    """A TLS connection whose client certificate has been verified, if the client sent one."""

    def getpeercert(self, binary_form: bool = False) -> Any:  # noqa: ANN401 - the signature of the library
        """Return the client certificate, as a dictionary or in DER."""


def service_account_user(namespace: str, name: str, uid: str = "", extra: Mapping[str, list[str]] | None = None) -> User:
    """Return the user of a service account."""
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
        uid,
        extra or {},
    )


class Authenticator:
    """Authenticates users by certificate or token."""

    def __init__(self, store: Store, signer: TokenSigner, now: Callable[[], float]) -> None:
        self._accounts = store.collection("serviceaccounts")
        self._bound = {"pod": store.collection("pods"), "secret": store.collection("secrets"), "node": store.collection("nodes")}
        self._signer = signer
        self._now = now
        self._read: dict[str, dict[str, Any]] = {}
        self._peers: WeakKeyDictionary[Peer, User | None] = WeakKeyDictionary()  # None for a connection without a certificate

    def user(self, authorization: str, tls: Peer | None) -> User:
        """Return the user of a request with this `Authorization` header on this connection."""
        certified = self._certified_peer(tls) if tls is not None else None
        if certified is not None:
            return certified
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        found = self.of_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise status.unauthorized()
        return found

    def _certified_peer(self, tls: Peer) -> User | None:
        """Return the user of the connection's certificate, None without a certificate. The result is cached."""
        try:
            return self._peers[tls]
        except KeyError:
            pass
        certificate = tls.getpeercert(binary_form=True)
        found = self._peers[tls] = _of_certificate(tls.getpeercert() or {}, certificate) if certificate else None
        return found

    def of_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """Return the user of `token`. None when the token is invalid, or its account or bound object was deleted."""
        now = self._now()
        claims = self._read.get(token)
        try:
            if claims is None or now >= claims["exp"]:
                claims = self._signer.read(token, now=now)
                if len(self._read) > 1000:
                    self._read.clear()
                self._read[token] = claims
        except InvalidToken:
            return None
        if not set(audiences) & set(claims["aud"]):
            return None
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        stored = self._accounts.items.get(f"{namespace}/{account['name']}")
        if stored is None or stored.uid != account["uid"]:
            return None
        extra = {f"{_EXTRA}credential-id": [f"JTI={claims['jti']}"]}
        for kind, collection in self._bound.items():
            if bound := private.get(kind):
                key = bound["name"] if kind == "node" else f"{namespace}/{bound['name']}"
                found = collection.items.get(key)
                if found is None or found.uid != bound["uid"]:
                    return None
                extra |= {f"{_EXTRA}{kind}-name": [bound["name"]], f"{_EXTRA}{kind}-uid": [bound["uid"]]}
        return service_account_user(namespace, account["name"], stored.uid, extra)


def _of_certificate(certificate: Mapping[str, Any], encoded: bytes) -> User:
    names = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for kind, value in names if kind == "commonName"), "")
    groups = [value for kind, value in names if kind == "organizationName"]
    credential = f"X509SHA256={hashlib.sha256(encoded).hexdigest()}"
    return User(name, (*groups, AUTHENTICATED), extra={f"{_EXTRA}credential-id": [credential]})


def impersonated(headers: Mapping[str, str], all_values: Callable[[str], list[str]]) -> User | None:
    """Return the user in the `Impersonate-*` headers. None without such headers."""
    if not any(name.lower().startswith("impersonate-") for name in headers):
        return None
    name = headers.get("Impersonate-User", "")
    groups = all_values("Impersonate-Group")
    prefix = "impersonate-extra-"
    extra = {unquote(key[len(prefix) :]).lower(): all_values(key) for key in headers if key.lower().startswith(prefix)}
    uid = headers.get("Impersonate-Uid", "")
    if not name:
        if groups or extra or uid:
            raise status.bad_request("Impersonate-* headers were given without Impersonate-User")
        return None
    parts = name.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        account = service_account_user(parts[2], parts[3], uid, extra)
        return account if not groups else User(name, _with_authenticated(groups), uid, extra)
    return User(name, _with_authenticated(groups) if name != ANONYMOUS.name else ANONYMOUS.groups, uid, extra)


def _with_authenticated(groups: list[str]) -> tuple[str, ...]:
    return tuple(groups) if AUTHENTICATED in groups or "system:unauthenticated" in groups else (*groups, AUTHENTICATED)
