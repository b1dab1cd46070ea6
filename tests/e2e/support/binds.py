"""A webhook of a test that sees all binds, and refuses or holds up those that the test names.

It has the audit log say of each pod what the log alone does not: its UID, its node, its gang, what it asks for.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyroclast.api.keys import GROUP_NAME
from pyroclast.resources import quantity
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.webhooks import pod_rule, serving_webhook

HOOK = "binds.example.com"
"""What the annotations of the audit log begin with."""

REFUSAL = "this pod is not to be bound now"
HELD_SECONDS = 25.0
"""How long a bind is held up at most: the API server waits 30 s for a webhook."""

Json = dict[str, Any]


@dataclass(slots=True)
class Binds:
    """`refused`: how many binds of a pod of that name are still refused; infinite: all. `held`: the names whose next bind waits
    until `let_go`, `waiting` those that do so now, as name and node."""

    refused: dict[str, float] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    seen: int = 0
    _open: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hold(self, *names: str) -> None:
        """Let the next bind of each of these pods wait."""
        self._open.clear()
        self.held = set(names)

    def let_go(self) -> None:
        """Let all binds through, those that wait too."""
        self.held = set()
        self._open.set()

    def answer(self, request: Json) -> Json:
        """The response to a review."""
        with self._lock:
            self.seen += 1
        allowed = True
        if request.get("subResource") == "binding" and not request.get("dryRun"):
            allowed = self._may_be_bound(request["name"], request["object"]["target"]["name"])
        response: Json = {"uid": request["uid"], "allowed": allowed, "auditAnnotations": _told(request)}
        return response if allowed else response | {"status": {"code": 403, "message": REFUSAL}}

    def _may_be_bound(self, name: str, node: str) -> bool:
        if name in self.held:
            with self._lock:
                self.held.remove(name)
                self.waiting[name] = node
            self._open.wait(HELD_SECONDS)
            with self._lock:
                del self.waiting[name]
        with self._lock:
            left = self.refused.get(name, 0)
            self.refused[name] = max(0, left - 1)
        return left <= 0


def _told(request: Json) -> dict[str, str]:
    """What the audit log is to say of a request about a pod."""
    pod = request.get("object") or request.get("oldObject") or {}
    metadata, spec = pod.get("metadata", {}), pod.get("spec", {})
    told = {"uid": metadata.get("uid", ""), "name": metadata.get("name", "")}
    match request["operation"], request.get("subResource", ""):
        case "CREATE", "binding":
            told["node"] = pod["target"]["name"]
        case "CREATE", "":
            asked = [container.get("resources", {}).get("requests", {}).get("cpu", "0") for container in spec["containers"]]
            told["cpu"] = str(sum(quantity.parse(str(each)).millis for each in asked))
            told["gang"] = metadata.get("annotations", {}).get(GROUP_NAME, "")
            told["node"] = spec.get("nodeName", "")
        case "UPDATE", "status":
            told["phase"], told["reason"] = pod["status"].get("phase", ""), pod["status"].get("reason", "")
        case _:
            told["grace"] = str((request.get("options") or {}).get("gracePeriodSeconds", ""))
    return told


@contextlib.contextmanager
def watched_binds(cluster: Cluster, folder: Path) -> Iterator[Binds]:
    """The webhook, asked by the API server of `cluster` from now on about all pods; `folder` takes its keys."""
    binds = Binds()
    rules = [pod_rule("pods", "CREATE", "DELETE"), pod_rule("pods/binding", "CREATE"), pod_rule("pods/status", "UPDATE")]
    hook = {"name": HOOK, "rules": rules, "timeoutSeconds": 30}
    with serving_webhook(cluster, folder, "Validating", hook, binds.answer, seen=lambda: binds.seen):
        try:
            yield binds
        finally:
            binds.let_go()
