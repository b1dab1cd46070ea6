"""A webhook of a test that adds a sidecar of 1 cpu to the pods of a namespace."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.control_plane.certificates import Certificates
from tests.e2e.support.binds import review_handler
from tests.e2e.support.cluster import Cluster, wait_until

__all__ = ["sidecars"]

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

    pki = Certificates(folder)
    pki.server("sidecars")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki.certificate_of("sidecars"), pki.key_of("sidecars"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), review_handler(answer))
    server.daemon_threads, server.block_on_close = True, False
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}/"
        cluster.create(json.dumps(_configuration(url, pki.ca.read_bytes(), namespace)))
        try:
            wait_until(lambda: _is_asked(cluster, namespace, seen), "the API server to ask about pods")
            added.clear()
            yield added
        finally:
            cluster.kubectl("delete", "mutatingwebhookconfiguration", HOOK)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _is_asked(cluster: Cluster, namespace: str, seen: list[str]) -> bool:
    before = len(seen)
    cluster.kubectl("run", "probe", "-n", namespace, "--image=a", "--dry-run=server")
    return len(seen) > before


def _configuration(url: str, authority: bytes, namespace: str) -> dict[str, Any]:
    hook = {
        "name": HOOK,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": HOOK}, "webhooks": [hook]}
