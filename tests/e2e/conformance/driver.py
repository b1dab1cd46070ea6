"""Sends the steps of a case to one server and writes down, normalised, what came back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from pyroclast.kube.credentials.config import load_config
from tests.e2e.conformance.answers import find, parsed, without
from tests.e2e.conformance.cases import Case, Step, path_of
from tests.e2e.conformance.hooks import HookServer
from tests.e2e.conformance.normal import Normaliser, without_prose

_WATCH_SECONDS = 4.0  # after which an event that has not come does not come
_WAIT_SECONDS = 60.0  # the controllers of a real server come back after ever longer pauses
_KEPT_HEADERS = ("Retry-After", "Location", "WWW-Authenticate")

Transcript = list[dict[str, Any]]


@dataclass(slots=True)
class Server:
    """One API server as its administrator, and the webhooks that it can call."""

    name: str
    url: str
    session: aiohttp.ClientSession
    hooks: HookServer

    async def run(self, case: Case) -> Transcript:
        """The answers to the steps of `case`, in a namespace of its own."""
        async with self.opened() as run, asyncio.timeout(90):
            return [result for step in case.steps if (result := await run.step(step)) is not None]

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Run]:
        """A namespace of its own to carry out steps in, one by one."""
        namespace = f"conf-{secrets.token_hex(3)}"
        run = Run(self, namespace)
        await self.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            await self._default_account(namespace)
            yield run
        finally:
            await run.close()
            await self.request("DELETE", f"/api/v1/namespaces/{namespace}")

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of one request."""
        data = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
        sent = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "conformance/1"} | dict(
            headers or {}
        )
        sent = {name: value for name, value in sent.items() if value}
        url = self.url + path
        skipped = ("Content-Type",) if "Content-Type" not in sent else ()
        async with self.session.request(
            method, URL(url, encoded="%" in path), data=data, headers=sent, skip_auto_headers=skipped
        ) as answer:
            return answer.status, answer.headers.copy(), await answer.read()

    async def _default_account(self, namespace: str) -> None:
        for _ in range(200):
            status, _, _ = await self.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
            if status == 200:
                return
            await asyncio.sleep(0.05)
        raise TimeoutError(f"{self.name}: no default ServiceAccount in {namespace}")


@dataclass(slots=True)
class Run:
    """The steps that are carried out in one namespace of one server, what they saved and the watches they opened."""

    server: Server
    namespace: str
    saved: dict[str, str] = field(default_factory=dict)
    watches: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    events: dict[str, list[Any]] = field(default_factory=dict)
    cleanup: list[str] = field(default_factory=list)
    normal: Normaliser = field(init=False)

    def __post_init__(self) -> None:
        self.normal = Normaliser(self.namespace)

    async def step(self, step: Step) -> dict[str, Any] | None:
        """Carry out one step; what is to be compared of its answer, normalised."""
        match step.kind:
            case "watch":
                await self._open_watch(step)
                return None
            case "events":
                return await self._take_events(step)
            case "wait":
                return await self._wait(step)
            case "reviews":
                return {"reviews": self.normal.value(self._shown(await self.server.hooks.reviews(self.namespace), step))}
            case "sleep":
                await asyncio.sleep(float(step.target))
                return None
            case _:
                return await self._request(step)

    async def close(self) -> None:
        """End what was opened and remove what lies outside the namespace."""
        for watch in self.watches.values():
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError, aiohttp.ClientError):
                await watch
        for path in reversed(self.cleanup):
            await self.server.request("DELETE", path)

    async def _request(self, step: Step) -> dict[str, Any] | None:
        path = self._filled(path_of(step.target, self.namespace))
        body = self._filled(step.body)
        if isinstance(body, dict) and len(body) == 1:
            body = base64.b64decode(body["raw64"]) if "raw64" in body else body.get("raw", body)
        retried = step.options.get("retry") or ()
        for _ in range(100):
            status, headers, content = await self.server.request(step.kind, path, body, self._headers(step))
            if status not in retried:
                break
            await asyncio.sleep(0.1)
        if step.kind == "POST" and status < 300 and "/namespaces/" not in path:
            created = parsed(content)
            if isinstance(created, dict) and created.get("metadata", {}).get("name"):
                self.cleanup.append(f"{path.partition('?')[0]}/{created['metadata']['name']}")
        answer = parsed(content)
        for name, where in (step.options.get("save") or {}).items():
            self.saved[name] = headers.get(where[7:], "") if where.startswith("header.") else str(find(answer, where))
        if step.options.get("quiet"):
            if status >= 300:
                return {"request": f"{step.kind} {step.target}", "status": status, "body": self.normal.value(answer)}
            self.normal.value(answer)
            return None
        shown: dict[str, Any] = {"request": f"{step.kind} {step.target}", "status": status}
        kept: dict[str, Any] = {name: self.normal.text(headers[name]) for name in _KEPT_HEADERS if name in headers}
        warnings = [self.normal.text(value) for key, value in headers.items() if key.lower() == "warning"]
        if warnings:
            kept["Warning"] = warnings
        if content:
            shown["type"] = headers.get("Content-Type", "")
        if kept:
            shown["headers"] = kept
        shown["body"] = self.normal.value(self._shown(answer, step)) if not isinstance(answer, str) else self.normal.text(answer)
        return shown

    def _shown(self, answer: Any, step: Step) -> Any:
        """The part of an answer that the step is about: `only` keeps paths, `drop` leaves keys out everywhere."""
        if step.options.get("only") and isinstance(answer, dict) and answer.get("kind") != "Status":
            whole = without_prose(answer) if answer.get("kind") == "Table" else answer
            return {path: find(whole, path) for path in step.options["only"]}
        dropped = set(step.options.get("drop") or ())
        return without(answer, dropped) if dropped else answer

    def _headers(self, step: Step) -> dict[str, str]:
        headers = {str(name): self._filled(str(value)) for name, value in (step.options.get("headers") or {}).items()}
        if "content_type" in step.options:
            headers["Content-Type"] = step.options["content_type"]
        if "accept" in step.options:
            headers["Accept"] = step.options["accept"]
        if "user" in step.options:
            headers["Impersonate-User"] = self._filled(step.options["user"])
        return headers

    async def _open_watch(self, step: Step) -> None:
        name = step.options["as"]
        events: list[Any] = self.events.setdefault(name, [])
        opened = asyncio.Event()
        path = self._filled(path_of(step.target, self.namespace))
        accept = step.options.get("accept", "application/json")

        async def read() -> None:
            url = URL(self.server.url + path, encoded="%" in path)
            async with self.server.session.get(url, headers={"Accept": accept, **self._headers(step)}) as answer:
                opened.set()
                if answer.status != 200:
                    events.append({"status": answer.status, "body": parsed(await answer.read())})
                    return
                async for line in answer.content:
                    if not _is_mark(event := json.loads(line)):
                        events.append(event)  # noqa: PERF401 - each is to be seen as it comes
                events.append("end")

        self.watches[name] = asyncio.ensure_future(read())
        waiter = asyncio.ensure_future(opened.wait())
        await asyncio.wait([waiter, self.watches[name]], timeout=5, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()

    async def _take_events(self, step: Step) -> dict[str, Any]:
        """At least `count` events (or what came until then), shortly after nothing more comes."""
        events, count = self.events[step.target], int(step.options.get("count", 0))
        waited = float(step.options.get("within", _WATCH_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(waited):
                while len(events) < count and not (events and events[-1] == "end"):
                    await asyncio.sleep(0.02)
        await asyncio.sleep(0.25)  # for one too many
        taken, events[:] = events[: step.options.get("first")], []
        return {"events": self.normal.value(self._shown(taken, step))}

    async def _wait(self, step: Step) -> dict[str, Any] | None:
        """Until a GET is answered with status `until`, and the value at `where` is `equals`."""
        path = self._filled(path_of(step.target, self.namespace))
        until, where, equals = step.options.get("until", 200), step.options.get("where"), step.options.get("equals")
        deadline = asyncio.get_running_loop().time() + _WAIT_SECONDS
        while True:
            status, _, content = await self.server.request("GET", path)
            answer = parsed(content)
            if status == until and (where is None or str(find(answer, where)) == str(equals)):
                for name, saved in (step.options.get("save") or {}).items():
                    self.saved[name] = str(find(answer, saved))
                return None
            if asyncio.get_running_loop().time() > deadline:
                return {"wait": step.target, "timeout": True, "status": status, "body": self.normal.value(answer)}
            await asyncio.sleep(0.05)

    def _filled(self, value: Any) -> Any:
        """`value` with `<ns>`, `$name` of saved values and the addresses of webhooks put in."""
        match value:
            case str():
                for name, saved in self.saved.items():
                    value = value.replace(f"${name}$", saved)
                value = value.replace("<ns>", self.namespace).replace("<hook>", self.server.hooks.url(self.namespace))
                return value.replace("<ca>", self.server.hooks.ca_bundle)
            case dict():
                return {self._filled(key): self._filled(item) for key, item in value.items()}
            case list():
                return [self._filled(item) for item in value]
            case _:
                return value


@contextlib.asynccontextmanager
async def connect(name: str, kubeconfig: Path, hooks: HookServer) -> AsyncIterator[Server]:
    """The server that a kubeconfig names."""
    config = await asyncio.to_thread(load_config, str(kubeconfig))
    connector = aiohttp.TCPConnector(ssl=config.ssl_context() or True, limit=0)
    authorization = await config.credentials.authorization()
    headers = {"Authorization": authorization} if authorization else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout, read_bufsize=2**22) as session:
        yield Server(name, config.server, session, hooks)


def _is_mark(event: dict[str, Any]) -> bool:
    """Whether a watch event is a bookmark that a server sends when it likes: not the one behind the objects that were there."""
    return event.get("type") == "BOOKMARK" and not event["object"]["metadata"].get("annotations")
