"""The audit log: one JSON line per request, in the format of kube-apiserver's log at level Metadata."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.requests.context import Context


class AuditLog:
    """Appends events to a file. Each line is written to the operating system before its request is answered."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    def record(
        self, request: web.BaseRequest, context: Context, code: int, now: float, *, failure: bytes = b"", begins: bool = False
    ) -> None:
        """Record a request that was answered with `code` at `now`, in seconds since the epoch.

        `failure` is the Status of a failed request. With `begins`, the answer continues, as a watch does, and its end is recorded
        too.
        """
        info = context.info
        peer = request.remote
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": str(uuid.uuid4()),
            "stage": "ResponseStarted" if begins else "ResponseComplete",
            "requestURI": request.path_qs,
            "verb": info.verb,
            "user": (context.impersonator or context.user).wire(),
            "sourceIPs": [peer] if peer else [],
            "userAgent": request.headers.get("User-Agent", ""),
            "responseStatus": {"metadata": {}, **_outcome(failure), "code": code},
            "requestReceivedTimestamp": times.micro_rfc3339(context.now),
            "stageTimestamp": times.micro_rfc3339(now),
        }
        if context.impersonator is not None:
            event["impersonatedUser"] = context.user.wire()
        if info.is_resource:
            reference = {
                "resource": info.resource,
                "namespace": info.namespace,
                "name": info.name or context.created_name,
                "apiGroup": info.group,
                "apiVersion": info.version,
                "subresource": info.subresource,
            }
            event["objectRef"] = {name: value for name, value in reference.items() if value}
        if context.annotations:
            event["annotations"] = context.annotations
        self._file.write(orjson.dumps(event) + b"\n")

    def close(self) -> None:
        """Close the file of the audit log."""
        self._file.close()


def _outcome(failure: bytes) -> dict[str, Any]:
    """Return the fields of a Status that belong into the event. Empty if the request succeeded or the Status is not JSON."""
    try:
        status = orjson.loads(failure) if failure else {}
    except orjson.JSONDecodeError:
        return {}
    return {name: status[name] for name in ("status", "message", "reason", "details") if status.get(name)}
