"""Who may read the debug pages of a process: processes on the same machine, and users whom the API server allows it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client

SECONDS = 5.0
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def is_local(address: object) -> bool:
    """Whether the socket address of a peer is on this machine, like that of `kubectl port-forward`."""
    host = address[0] if isinstance(address, tuple) and address else ""
    try:
        found = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


async def refusal(client: Client | None, authorization: str, path: str) -> tuple[int, str] | None:
    """Return why the bearer of an Authorization header may not read `path`, as HTTP status and text; None when the bearer may."""
    token = bearer_token(authorization)
    if not token:
        return 401, f"{path} is for this machine alone; others need a token whose user may get {path}"
    if client is None:
        return 503, "the API server is not known yet"
    try:
        user = await user_of(client, token)
        if not user:
            return 401, "the API server does not know this token"
        may = await is_allowed(client, user, {"nonResourceAttributes": {"path": path, "verb": "get"}})
    except KubeError as error:
        return 503, f"the API server cannot be asked who may get {path}: {error}"
    return None if may else (403, f'user "{user.get("username", "")}" may not get {path}')


def bearer_token(authorization: str) -> str:
    """Return the token in an Authorization header; empty when there is none."""
    kind, _, token = authorization.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def user_of(client: Client, token: str, audiences: Sequence[str] = ()) -> dict[str, Any]:
    """Return the user of a token by a TokenReview; empty when the API server does not accept the token.

    `audiences`: the token must be for one of these; if empty, for the API server.

    Raises:
        KubeError: the API server did not answer.
    """
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    status = await _ask(client, REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
    if audiences and not set(status.get("audiences") or ()).intersection(audiences):
        return {}  # an API server without support for audiences has not checked them
    return status.get("user") or {}


async def is_allowed(client: Client, user: Mapping[str, Any], what: Mapping[str, Any]) -> bool:
    """Whether a user may do `what`, which is `resourceAttributes` or `nonResourceAttributes` of a SubjectAccessReview.

    Raises:
        KubeError: the API server did not answer.
    """
    who = {name: user[name] for name in ("uid", "groups", "extra") if user.get(name)}
    spec = {"user": user.get("username", ""), **who, **what}
    status = await _ask(client, ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
    return status.get("allowed") is True


async def _ask(client: Client, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    body = orjson.dumps({"apiVersion": version, "kind": kind, "spec": spec})
    answer = orjson.loads(await client.request("POST", path, body=body, deadline=Deadline.after(SECONDS)))
    status: dict[str, Any] = answer.get("status") or {}
    return status
