"""A webhook of a test that adds a sidecar of 1 cpu to the pods of a namespace."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.support.cluster import Cluster
from tests.e2e.support.webhooks import pod_rule, serving_webhook

HOOK = "sidecars.example.com"
SIDECAR = {"name": "side", "image": "busybox:1.37", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "1"}}}


@contextlib.contextmanager
def sidecars(cluster: Cluster, folder: Path, namespace: str, *, every: int) -> Iterator[list[str]]:
    """Every so many-th pod that is really created gets one, and each dry run where all do; the names of the pods that did."""
    added: list[str] = []
    seen: list[str] = []
    numbers = itertools.count(1)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        seen.append(request["uid"])
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        is_due = every == 1 if request.get("dryRun") else next(numbers) % every == 0
        if not is_due:
            return response
        added.append(request["object"]["metadata"]["name"])
        patch = [{"op": "add", "path": "/spec/containers/-", "value": SIDECAR}]
        return response | {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}

    hook = {
        "name": HOOK,
        "rules": [pod_rule("pods", "CREATE")],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "timeoutSeconds": 10,
    }
    with serving_webhook(cluster, folder, "Mutating", hook, answer, seen=lambda: len(seen), namespace=namespace):
        added.clear()
        yield added
