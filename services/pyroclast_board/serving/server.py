"""The HTTP server: finds the page or the file of a request and answers."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import orjson
import structlog
from aiohttp import web

from pyroclast.pictures.svg import STYLE
from pyroclast.runtime.access import Denied, Reader
from pyroclast.runtime.bodies import read_at_most
from pyroclast.runtime.listener import Listener
from pyroclast_board.metrics import BoardMetrics
from pyroclast_board.pages.base import BadRequest, NoPage, Page, Scope, Section, Templates
from pyroclast_board.pages.jobs import jobs_csv
from pyroclast_board.serving.pages import Pages
from pyroclast_board.serving.recorder import RecorderAway
from pyroclast_board.serving.streams import Review, Streams, TooMany, page_of, version_of
from pyroclast_board.serving.viewers import COOKIE, Viewers, is_from_here, scope_of

TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Static:
    """The static files in memory, by path, each with an entity tag of its content."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for file in files("pyroclast_board").joinpath("static").iterdir():
            kind = file.name.rpartition(".")[2]
            if kind in TYPES:
                content = file.read_bytes() + (STYLE.encode() if kind == "css" else b"")
                tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
                self._files[f"/static/{file.name}"] = (content, TYPES[kind], tag)

    def answer(self, request: web.BaseRequest, headers: Mapping[str, str]) -> web.Response:
        """Return a file, or status 304 if the client has the current content."""
        found = self._files.get(request.path)
        if found is None:
            raise NoPage
        content, kind, tag = found
        whole = {**headers, "Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=whole)
        response = web.Response(body=content, content_type=kind, charset="utf-8", headers=whole)
        response.enable_compression()
        return response


log = structlog.get_logger()

PLACES: Final = (
    ("overview", "/", "Overview"),
    ("queues", "/queues", "Queues"),
    ("jobs", "/jobs", "Jobs"),
    ("flows", "/flows", "Flows"),
    ("nodes", "/nodes", "Nodes"),
    ("what-if", "/what-if", "What if"),
    ("history", "/history", "History"),
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LINE_BYTES: Final = 16 * 1024
FORM_BYTES: Final = 16 * 1024
LIVE: Final = "/live"
EXPLAIN: Final = "/explain/"
FITS: Final = "/explain/fits"
WHAT_IF: Final = "/explain/what-if"
JOB_BYTES: Final = 1 << 20
OLD_SECONDS: Final = 30.0
"""Seconds without news from a watch after which pages show the age of their data."""


class BoardServer:
    """Answers GET and HEAD, the two forms that start and end a login session, and the question whether a Job would start."""

    def __init__(
        self,
        pages: Pages,
        streams: Streams,
        viewers: Viewers,
        templates: Templates,
        *,
        metrics: BoardMetrics,
        most_streams: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._pages, self._streams, self._viewers = pages, streams, viewers
        self._templates, self._metrics = templates, metrics
        self._static = Static()
        self._listener = Listener(
            self._handle,
            tls=tls,
            most=most_streams + 256,
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
            shutdown_timeout=5.0,
        )

    async def start(self, address: str) -> None:
        """Listen on the address."""
        await self._listener.start_at(address, "--page-address")

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._listener.port

    async def stop(self) -> None:
        """Answer the requests that have arrived, then close the connections."""
        self._streams.close()
        await self._listener.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        begun = time.perf_counter()
        try:
            return await self._answer(request)
        except BadRequest as error:
            return self._told(400, "That cannot be shown", str(error))
        except Denied as error:
            return self._denied(request, error)
        except TooMany:
            return self._told(503, "Too many streams", "as many pages are followed live as may be; this one is not")
        except RecorderAway as error:
            return self._told(503, "No history", str(error))
        except NoPage:
            return self._told(404, "Nothing here", f"there is no {request.path[:200]}, or you may not see it")
        except Exception:
            log.exception("board.not_answered", path=request.path[:200])
            return self._told(500, "A mistake of ours", "this page could not be made; the log of the board says why")
        finally:
            self._metrics.answered(_place(request.path), time.perf_counter() - begun)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if request.method == "POST" and path in {"/login", "/logout"} and self._viewers.has_form:
            return await self._form(request)
        is_trial = request.method == "POST" and path in {FITS, WHAT_IF}
        if request.method not in {"GET", "HEAD"} and not is_trial:
            return self._told(405, "Only for reading", "this page can only be read")
        if path.startswith("/static/"):
            return self._static.answer(request, HEADERS)
        if path == "/login" and self._viewers.has_form:
            return self._login(200, "")
        now = self._pages.cluster.now()
        reader = await self._viewers.of(request, now)
        if path.startswith(f"{LIVE}/"):
            if request.method == "HEAD":  # a stream has no other headers to report
                return web.Response(content_type="text/event-stream", headers=HEADERS)
            return await self._follow(request, reader.name)
        if is_trial:
            return await self._tried(request, reader)
        scope = await scope_of(reader, self._pages.namespaces_of(path))
        if path.startswith(EXPLAIN):
            return await self._explained(request, scope)
        if path == "/jobs.csv" or (path.startswith("/jobs/") and path.endswith("/log")):
            return await self._text_of_jobs(request, reader, scope, now)
        page = await self._pages.page(page_of(path, request.query, scope, reader.name))
        if page is None:
            raise NoPage
        note = "" if scope.is_all else "Jobs of namespaces in which you may not list Jobs are counted and not named."
        return self._shown(request, page, reader.name, note)

    async def _text_of_jobs(self, request: web.BaseRequest, reader: Reader, scope: Scope, now: float) -> web.Response:
        """Return the list of Jobs as CSV, or the page with the last lines of the log of one Job."""
        if request.path == "/jobs.csv":
            rows = list(self._pages.cluster.table.rows)  # a copy, since rows change while the thread writes
            text = await asyncio.to_thread(jobs_csv, rows, scope, dict(request.query), now)
            disposition = {"Content-Disposition": 'attachment; filename="jobs.csv"'}
            return web.Response(text=text, content_type="text/csv", headers={**HEADERS, **disposition})
        token = None if self._viewers.is_open else self._viewers.token_of(request, now)
        page = await self._pages.log(scope, unquote(request.path.split("/")[2]), token)
        if page is None:
            raise NoPage
        return self._shown(request, page, reader.name, "")

    async def _explained(self, request: web.BaseRequest, scope: Scope) -> web.Response:
        """Return the scheduler's answer to a program. The answer names only objects that the viewer may see."""
        parts = request.path.removeprefix(EXPLAIN).split("/")
        match parts:
            case ["jobs" | "podgroups", namespace, _] if scope.sees(namespace):
                pass
            case ["queues", _] | ["ends"]:
                pass
            case _:
                raise NoPage
        if not {"", ".", ".."}.isdisjoint(parts):  # such a path would reach other endpoints of the scheduler
            raise NoPage
        path = "/".join(quote(part, safe="") for part in parts)
        query = {name: value for name, value in request.query.items() if name != "namespaces"}
        answer = await self._pages.scheduler.ask(scope, path, query)
        if answer is None:
            raise NoPage
        return web.Response(status=answer[0], body=answer[1], content_type="application/json", headers=HEADERS)

    async def _tried(self, request: web.BaseRequest, reader: Reader) -> web.Response:
        """Return the scheduler's answer whether a Job would start, or what a change would do. Nothing is written."""
        content = await read_at_most(request.content, JOB_BYTES)
        if content is None:
            return _json(413, f"a Job has at most {JOB_BYTES} bytes")
        try:
            job = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            return _json(400, f"the body is no JSON: {error}")
        if request.path == WHAT_IF:
            scope = await scope_of(reader, self._pages.namespaces_of("/what-if"))
            return _answered(await self._pages.scheduler.what_if(scope, content))
        metadata = job.get("metadata") if isinstance(job, dict) else None
        namespace = str((metadata.get("namespace") if isinstance(metadata, dict) else None) or "default")
        scope = await scope_of(reader, self._pages.namespaces_of(f"/jobs/{quote(namespace, safe='')}"))
        if not scope.sees(namespace):
            return _json(403, f"you may not list jobs.batch.volcano.sh in namespace {namespace[:64]}")
        return _answered(await self._pages.scheduler.fits(scope, content))

    async def _follow(self, request: web.BaseRequest, viewer: str) -> web.StreamResponse:
        path = request.path.removeprefix(LIVE)
        query = {name: value for name, value in request.query.items() if name != "seen"}
        seen = request.headers.get("Last-Event-ID") or request.query.get("seen", "")

        async def scope() -> Scope:
            reader = await self._viewers.of(request, self._pages.cluster.now())
            return await scope_of(reader, self._pages.namespaces_of(path))

        followed = page_of(path, query, await scope(), viewer)
        viewers = self._viewers
        namespaces = partial(self._pages.namespaces_of, path)
        review = Review(viewer, scope, namespaces, viewers.review_seconds, viewers.longest_stream)
        return await self._streams.follow(request, dict(HEADERS), followed, seen, review)

    async def _form(self, request: web.BaseRequest) -> web.StreamResponse:
        """Start or end a login session."""
        if not is_from_here(request):
            return self._told(403, "Not from here", "this form was sent by a page of another host")
        if request.path == "/logout":
            response = web.Response(status=303, headers={**HEADERS, "Location": "/login"})
            response.set_cookie(COOKIE, "", path="/", secure=True, httponly=True, samesite="Strict", max_age=0)
            return response
        body = await read_at_most(request.content, FORM_BYTES)
        if body is None:
            raise BadRequest(f"a form has at most {FORM_BYTES} bytes")
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=4)
        cookie = await self._viewers.log_in(fields.get("token", [""])[0], self._pages.cluster.now())
        response = web.Response(status=303, headers={**HEADERS, "Location": "/"})
        response.set_cookie(COOKIE, cookie, path="/", secure=True, httponly=True, samesite="Strict")
        return response

    def _shown(self, request: web.BaseRequest, page: Page, viewer: str, note: str) -> web.Response:
        split = urlsplit(request.path_qs)
        live = f"{LIVE}{split.path}?{split.query}" if page.is_live else ""
        response = self._page(200, page, viewer, live=live, note=note)
        response.enable_compression()
        return response

    def _page(self, status: int, page: Page, viewer: str = "", *, live: str = "", note: str = "") -> web.Response:
        html = self._templates.render(
            "layout.html",
            page=page,
            places=PLACES,
            viewer=viewer,
            live=live,
            has_form=self._viewers.has_form,
            version=version_of(page),
            age=self._age(),
            scope_note=note,
        )
        return web.Response(status=status, text=html, content_type="text/html", headers=HEADERS)

    def _age(self) -> str:
        old = {kind: age for kind, age in self._pages.cluster.ages().items() if age > OLD_SECONDS}
        if not old:
            return ""
        return f"The API server does not answer: {', '.join(sorted(old))} as of {max(old.values()):.0f} s ago."

    def _told(self, status: int, title: str, message: str) -> web.Response:
        section = Section("message", self._templates.render("message.html", message=message))
        return self._page(status, Page(title, "", [section], is_live=False))

    def _denied(self, request: web.BaseRequest, error: Denied) -> web.Response:
        address = self._viewers.address_of(request)
        log.info("board.denied", status=error.status, path=request.path[:200], address=address, reason=str(error))
        if error.status == 401 and self._viewers.has_form:
            return self._login(401, str(error))
        return self._told(error.status, "Not for you" if error.status == 403 else "Not now", str(error))

    def _login(self, status: int, message: str) -> web.Response:
        html = self._templates.render("login.html", message=message)
        return web.Response(status=status, text=html, content_type="text/html", headers=HEADERS)


def _answered(answer: tuple[int, bytes] | None) -> web.Response:
    if answer is None:
        return _json(503, "the scheduler gives no answer")
    return web.Response(status=answer[0], body=answer[1], content_type="application/json", headers=HEADERS)


def _json(status: int, message: str) -> web.Response:
    body = orjson.dumps({"message": message})
    return web.Response(status=status, body=body, content_type="application/json", headers=HEADERS)


def _place(path: str) -> str:
    """Return the label of a path for metrics: one of a few words for any path."""
    first = path.removeprefix(LIVE).strip("/").partition("/")[0].removesuffix(".csv")
    known = {"": "overview", "static": "static", "login": "login", "logout": "login"}
    return known.get(first) or (first if any(first == place for place, _, _ in PLACES) else "other")
