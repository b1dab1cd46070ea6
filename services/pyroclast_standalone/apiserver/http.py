"""The HTTP layer: turns requests into contexts and answers into responses, with authentication, authorization and audit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from pyroclast.responses import WholeResponse
from pyroclast_standalone.apiserver.access.audit import AuditLog
from pyroclast_standalone.apiserver.access.authn import Authenticator, impersonated
from pyroclast_standalone.apiserver.access.authz import Authorizer, denial
from pyroclast_standalone.apiserver.documents.errors import DocumentError
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.bodies import MAX_BODY
from pyroclast_standalone.apiserver.requests.context import ANONYMOUS, Answer, Context, Streamed, Upgraded, User, Wanted, wanted
from pyroclast_standalone.apiserver.requests.routes import Query, RequestInfo, resolve
from pyroclast_standalone.apiserver.verbs.discovery import Discovery
from pyroclast_standalone.apiserver.verbs.dispatch import Dispatcher

_log = logging.getLogger(__name__)
_METHODS_WITH_BODY: Final = {"POST", "PUT", "PATCH", "DELETE"}
_WANTED: Final = Wanted()
_FAILED: Final = 400  # answers from this status on are Statuses
_CONNECTING: Final = {"attach", "exec", "portforward"}
_CACHING: Final = "no-cache, private"


class Faults(Protocol):
    """Faults that a test injects into requests."""

    async def before(self, info: RequestInfo) -> status.StatusError | None:
        """Delay a request. Return the error with which the request must fail, or None."""


class Front:
    """Handles every request of the server."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        discovery: Discovery,
        dispatcher: Dispatcher,
        audit: AuditLog | None,
        *,
        faults: Faults | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._discovery = discovery
        self._dispatcher = dispatcher
        self._audit = audit
        self._faults = faults
        self._now = now

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Every error becomes a Status."""
        query = Query(dict(reversed(list(request.query.items())))) if request.query_string else Query({})
        info = resolve(request.method, request.rel_url.raw_path, query)
        context = Context(info, query, request.headers, b"", ANONYMOUS, _WANTED, self._now())
        try:
            answer = await self._answer(request, context)
        except status.StatusError as error:
            answer = _failure(error)
        except DocumentError as error:
            answer = _failure(status.of_document(error))
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - top level of a request: logged and returned as a Status
            _log.exception("request.failed: %s %s", request.method, request.path_qs)
            answer = _failure(status.internal("see the server's log"))
        if isinstance(answer, Upgraded):
            if self._audit is not None:
                self._audit.record(request, context, 101, self._now(), begins=True)
            return await answer.serve(request)
        if isinstance(answer, Streamed):
            return await self._stream(request, context, answer)
        if self._audit is not None:
            failure = answer.body if answer.code >= _FAILED else b""
            self._audit.record(request, context, answer.code, self._now(), failure=failure)
        is_plain = bool(answer.content_type) and not answer.headers and not context.warnings
        if is_plain and WholeResponse.fits(request, answer.body):
            return WholeResponse(answer.code, answer.content_type, answer.body, f"Cache-Control: {_CACHING}\r\n")
        return _response(context, answer, with_body=request.method != "HEAD")

    async def _answer(self, request: web.BaseRequest, context: Context) -> Answer | Streamed | Upgraded:
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        context.user = self._authenticator.user(request.headers.get("Authorization", ""), tls)
        self._impersonate(request, context)
        info = context.info
        wish = info
        verdict = self._authorizer.decide(context.user, wish)
        if verdict.allowed and info.subresource in _CONNECTING and wish.verb == "get":
            wish = msgspec.structs.replace(wish, verb="create")  # whoever may only read must not start commands
            verdict = self._authorizer.decide(context.user, wish)
        if self._audit is not None:
            context.annotations |= verdict.annotations()
        if not verdict.allowed:
            raise denial(context.user, wish)
        if self._faults is not None and (fault := await self._faults.before(info)) is not None:
            raise fault
        if not info.is_resource:
            if request.method not in {"GET", "HEAD"}:
                raise status.no_such_path()
            return self._discovery.answer(context)
        context.wanted = wanted(request.headers.get("Accept", ""), is_list=info.verb in {"list", "watch"})
        if request.method in _METHODS_WITH_BODY:
            context.body = await _body(request)
        return await self._dispatcher.answer(context, request.method)

    def _impersonate(self, request: web.BaseRequest, context: Context) -> None:
        """Replace the user by the impersonated one, if the user may impersonate."""
        headers = request.headers
        user = impersonated(headers, lambda name: list(headers.getall(name, [])))
        if user is None:
            return
        for wish in _impersonations(user, headers.getall("Impersonate-Group", [])):
            if not self._authorizer.decide(context.user, wish).allowed:
                raise denial(context.user, wish)
        context.impersonator, context.user = context.user, user

    async def _stream(self, request: web.BaseRequest, context: Context, answer: Streamed) -> web.StreamResponse:
        headers = {"Content-Type": answer.content_type, "Cache-Control": _CACHING}
        response = web.StreamResponse(status=answer.code, headers=headers)
        for text in context.warnings:
            response.headers.add("Warning", _warning(text))
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            if self._audit is not None:
                self._audit.record(request, context, answer.code, self._now(), begins=True)
            async for chunk in answer.chunks:
                if chunk:
                    await response.write(chunk)
            await response.write_eof()
        except ConnectionError:
            _log.debug("watch.gone: %s", request.path_qs)
        finally:
            close: Any = getattr(answer.chunks, "aclose", None)
            if close is not None:
                await close()
            if self._audit is not None:
                self._audit.record(request, context, answer.code, self._now())
        return response


async def _body(request: web.BaseRequest) -> bytes:
    length = request.content_length
    if length is not None and length > MAX_BODY:
        raise _too_large()
    content = request.content
    try:
        body = content.read_nowait() if content.is_eof() else await request.read()  # most bodies arrive together with the headers
    except web.HTTPRequestEntityTooLarge:
        raise _too_large() from None
    except HttpProcessingError as error:
        raise status.bad_request(str(error.message)) from None
    return body


def _too_large() -> status.StatusError:
    return status.StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}", details={})


def _impersonations(user: User, groups: list[str]) -> list[RequestInfo]:
    parts = user.name.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        wishes = [RequestInfo("impersonate", resource="serviceaccounts", namespace=parts[2], name=parts[3])]
    else:
        wishes = [RequestInfo("impersonate", resource="users", name=user.name)]
    wishes += [RequestInfo("impersonate", resource="groups", name=group) for group in groups]
    group = "authentication.k8s.io"
    if user.uid:
        wishes.append(RequestInfo("impersonate", group=group, resource="uids", name=user.uid))
    extras = ((name, value) for name, values in user.extra.items() for value in values)
    wishes += [
        RequestInfo("impersonate", group=group, resource="userextras", subresource=each, name=value) for each, value in extras
    ]
    return wishes


def _failure(error: status.StatusError) -> Answer:
    if error.plain:
        headers = {"X-Content-Type-Options": "nosniff"}
        return Answer(error.code, error.message.encode(), "text/plain; charset=utf-8", headers)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Answer(error.code, orjson.dumps(error.body()), "application/json", headers)


def _response(context: Context, answer: Answer, *, with_body: bool) -> web.Response:
    headers = {"Cache-Control": _CACHING, **answer.headers}
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    response = web.Response(status=answer.code, body=answer.body if with_body else b"", headers=headers)
    for text in context.warnings:
        response.headers.add("Warning", _warning(text))
    return response


def _warning(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'299 - "{quoted}"'
