"""Who may read debug pages, history and web page.

Debug pages are open to users whom the API server allows them, and, where the settings say so, to processes on the same machine.
A user who may list the Jobs of a namespace may read everything about these Jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from pyroclast.kube.basics.addresses import is_local, is_local_name
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client

if TYPE_CHECKING:
    from aiohttp import web

T = TypeVar("T")


SECONDS = 5.0
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def is_from_this_machine(request: web.BaseRequest) -> bool:
    """Whether a process of this machine asks, by a name of this machine. Behind a sidecar proxy, this is true for everybody."""
    return is_local(request.transport and request.transport.get_extra_info("peername")) and is_local_name(request.host)


async def refusal(client: Client | None, authorization: str, path: str) -> tuple[int, str] | None:
    """Return why the bearer of an Authorization header may not read `path`, as HTTP status and text; None when the bearer may."""
    token = bearer_token(authorization)
    if not token:
        return 401, f"{path} needs a token whose user may get {path}"
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
    """
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    status = await _ask(client, REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
    if audiences and not set(status.get("audiences") or ()).intersection(audiences):
        return {}  # an API server without support for audiences has not checked them
    return status.get("user") or {}


async def is_allowed(client: Client, user: Mapping[str, Any], what: Mapping[str, Any]) -> bool:
    """Whether a user may do `what`, which is `resourceAttributes` or `nonResourceAttributes` of a SubjectAccessReview."""
    who = {name: user[name] for name in ("uid", "groups", "extra") if user.get(name)}
    spec = {"user": user.get("username", ""), **who, **what}
    status = await _ask(client, ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
    return status.get("allowed") is True


async def _ask(client: Client, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    body = orjson.dumps({"apiVersion": version, "kind": kind, "spec": spec})
    answer = orjson.loads(await client.request("POST", path, body=body, deadline=Deadline.after(SECONDS)))
    status: dict[str, Any] = answer.get("status") or {}
    return status


REMEMBERED_SECONDS: Final = 60.0
MOST_REMEMBERED: Final = 10_000
ASKED_AT_ONCE: Final = 16


class Denied(Exception):
    """A request is refused; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Reader:
    """The sender of a request. `user` is None for a process on this machine, which may read everything."""

    def __init__(self, access: Access, user: Mapping[str, Any] | None) -> None:
        self._access, self._user = access, user

    @property
    def name(self) -> str:
        """The name of the user; empty for a process on this machine."""
        return "" if self._user is None else str(self._user.get("username", ""))

    async def sees_all(self) -> bool:
        """Whether the user may read the Jobs of every namespace."""
        return self._user is None or await self._access.may_list(self._user, "")

    async def visible(self, namespaces: Iterable[str]) -> list[str]:
        """Return those of `namespaces` whose Jobs the user may read."""
        user, asked = self._user, list(namespaces)
        if user is None or await self.sees_all():
            return asked
        found: list[str] = []
        for begin in range(0, len(asked), ASKED_AT_ONCE):
            some = asked[begin : begin + ASKED_AT_ONCE]
            verdicts = await asyncio.gather(*(self._access.may_list(user, each) for each in some))
            found += [each for each, may in zip(some, verdicts, strict=True) if may]
        return found


class Remembered:
    """Answers of another server, each for `seconds`, and so many at the most."""

    def __init__(self, seconds: float, most: int = MOST_REMEMBERED) -> None:
        self._seconds, self._most = seconds, most
        self._known: OrderedDict[object, tuple[float, Any]] = OrderedDict()

    def get(self, question: object) -> Any:  # noqa: ANN401 - a user or a verdict
        """Return the answer; None when it is not known any more."""
        found = self._known.get(question)
        return found[1] if found is not None and found[0] > time.monotonic() else None

    def put(self, question: object, answer: Any) -> None:  # noqa: ANN401 - the same
        """Remember an answer, in place of the oldest one where there are too many."""
        self._known[question] = (time.monotonic() + self._seconds, answer)
        self._known.move_to_end(question)
        while len(self._known) > self._most:
            self._known.popitem(last=False)


class Access:
    """Asks the API server for users and rights, and caches its responses.

    `audience`: an audience whose tokens are accepted besides those for the API server; empty for none. `remembered`: seconds for
    which a response is cached. `trusts_local`: processes of this machine may read everything, without a token.
    """

    def __init__(
        self, client: Client, audience: str = "", remembered: float = REMEMBERED_SECONDS, *, trusts_local: bool = False
    ) -> None:
        self._trusts_local = trusts_local
        self._client, self._known = client, Remembered(remembered)
        self._audiences: Sequence[str] = (audience,) if audience else ()

    async def reader(self, request: web.BaseRequest) -> Reader:
        """Return the sender of a request. Raises Denied: the API server does not know the sender."""
        if self._trusts_local and is_from_this_machine(request):
            return Reader(self, None)
        token = bearer_token(request.headers.get("Authorization", ""))
        if not token:
            raise Denied(401, "say who you are: Authorization: Bearer TOKEN, with a token that the API server knows")
        return await self.bearer(token)

    async def bearer(self, token: str) -> Reader:
        """Return the owner of a token. Raises Denied: the API server does not know the token."""
        user = self._known.get(("token", token))
        if user is None:
            user = await _answered(user_of(self._client, token))
            if not user.get("username") and self._audiences:
                user = await _answered(user_of(self._client, token, self._audiences))
            if not user.get("username"):
                raise Denied(401, "the API server does not know this token")
            self._known.put(("token", token), user)
        return Reader(self, user)

    async def may_list(self, user: Mapping[str, Any], namespace: str) -> bool:
        """Whether a user may list the Jobs of a namespace; of all namespaces when `namespace` is empty."""
        question = (user["username"] + "\0" + "\0".join(sorted(user.get("groups") or ())), namespace)
        known = self._known.get(question)
        if known is None:
            attributes = {"group": "batch.volcano.sh", "resource": "jobs", "verb": "list", "namespace": namespace}
            known = await _answered(is_allowed(self._client, user, {"resourceAttributes": attributes}))
            self._known.put(question, known)
        return bool(known)


async def _answered(review: Awaitable[T]) -> T:
    try:
        return await review
    except KubeError as error:
        raise Denied(503, f"the API server cannot be asked who may read this: {error}") from error
