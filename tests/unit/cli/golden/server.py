"""Serves a fixed cluster at a fixed time, so that what the programs print of it is the same each time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import yaml

__all__ = ["FIXED", "Handler", "serving"]

FIXED = Path(__file__).with_name("cluster.yaml")
DATE = "Sun, 01 Mar 2026 12:00:00 GMT"


def plural(kind: str) -> str:
    return {"PriorityClass": "priorityclasses", "PodMetrics": "pods", "NodeMetrics": "nodes"}.get(kind, f"{kind.lower()}s")


def field(thing: Any, path: str) -> str:
    for part in path.split("."):
        thing = (thing or {}).get(part)
    return str(thing or "")


def is_selected(thing: dict[str, Any], labels: str, fields: str) -> bool:
    own = thing["metadata"].get("labels") or {}
    for each in filter(None, labels.split(",")):
        name, is_equal, value = each.partition("=")
        if name.endswith("!"):
            if own.get(name[:-1]) == value:
                return False
        elif (is_equal and own.get(name) != value) or (not is_equal and name not in own):
            return False
    for each in filter(None, fields.split(",")):
        name, _, value = each.partition("=")
        is_other = field(thing, name.rstrip("!=")) != value.lstrip("=")
        if is_other is not name.endswith("!"):
            return False
    return True


class Handler(BaseHTTPRequestHandler):
    objects: ClassVar[tuple[dict[str, Any], ...]] = ()
    answers: ClassVar[dict[str, Any]] = {}
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece: else the second waits 40 ms for the first to be acknowledged

    def log_message(self, *_: object) -> None:
        """Tests say what they have to say."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return DATE

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path.startswith(("/api/v1/", "/explain/")) and url.path in self.answers:
            self.answer(200, self.answers[url.path])
            return
        parts = url.path.strip("/").split("/")
        version, rest = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else (parts[1], parts[2:])
        namespace = ""
        if not rest:  # it is an old one, which has no PodGroups of its own
            self.answer(404, self.not_found(["groups", parts[-1]]))
            return
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        found = [
            each
            for each in self.objects
            if each["apiVersion"] == version
            and plural(each["kind"]) == rest[0]
            and namespace in {"", each["metadata"].get("namespace", "")}
            and is_selected(each, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        ]
        if len(rest) == 1:
            self.answer(200, {"kind": "List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": found})
            return
        one = next((each for each in found if each["metadata"]["name"] == rest[1]), None)
        self.answer(200, one) if one else self.answer(404, self.not_found(rest))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/selfsubjectaccessreviews"):
            self.answer(201, {"status": {"allowed": True}})
            return
        found = self.answers.get(urlsplit(self.path).path, {"message": "no session runs", "code": 503})
        self.answer(found.get("code") if isinstance(found.get("code"), int) else 200, found)

    def not_found(self, rest: list[str]) -> dict[str, Any]:
        text = f'{rest[0]} "{rest[1]}" not found'
        return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text, "reason": "NotFound", "code": 404}

    def answer(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def serving(*, is_empty: bool = False, fits: dict[str, Any] | None = None) -> Iterator[str]:
    """The URL of a server with the cluster, or with nothing in it; the scheduler answers `fits` for any Job."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Fixed", (Handler,), {}))
    url = f"http://127.0.0.1:{server.server_address[1]}"
    fixed = yaml.safe_load(FIXED.read_text().replace("@SERVER@", url))
    kept = [each for each in fixed["objects"] if each["kind"] == "ConfigMap"] if is_empty else fixed["objects"]
    handler: Any = server.RequestHandlerClass
    handler.objects = tuple(kept)
    handler.answers = fixed["empty" if is_empty else "answers"] | ({"/explain/fits": fits} if fits else {})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
