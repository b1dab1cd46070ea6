"""Webhooks that tests serve themselves."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.control_plane.certificates import Certificates
from tests.e2e.support.cluster import Cluster, wait_until

Json = dict[str, Any]


@contextlib.contextmanager
def serving_webhook(
    cluster: Cluster,
    folder: Path,
    kind: Literal["Validating", "Mutating"],
    hook: Mapping[str, Any],
    answer: Callable[[Json], Json],
    *,
    seen: Callable[[], int],
    namespace: str = "default",
) -> Iterator[None]:
    """The API server of `cluster` asks the webhook from now on.

    Args:
        folder: takes its keys.
        hook: its name and rules, and what else its configuration says.
        answer: makes the response to the request of a review.
        seen: how many requests there were; it has to count the creation of a pod in `namespace`.
    """
    pki = Certificates(folder)
    pki.server("webhook")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki.certificate_of("webhook"), pki.key_of("webhook"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
    server.daemon_threads, server.block_on_close = True, False
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"https://127.0.0.1:{server.server_address[1]}/"
    configuration = _configuration(kind, hook, address, pki.ca.read_bytes())

    def is_asked() -> bool:
        before = seen()
        cluster.kubectl("run", "probe", "-n", namespace, "--image=a", "--dry-run=server")
        return seen() > before

    try:
        cluster.create(json.dumps(configuration))
        try:
            wait_until(is_asked, "the API server to ask about pods")
            yield
        finally:
            cluster.kubectl("delete", configuration["kind"], hook["name"])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def pod_rule(resource: str, *operations: str) -> Json:
    """Which requests about pods, or a part of them, the webhook is asked about."""
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}


def _configuration(kind: str, hook: Mapping[str, Any], address: str, authority: bytes) -> Json:
    whole = {
        "clientConfig": {"url": address, "caBundle": base64.b64encode(authority).decode()},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **hook,
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
    return {**head, "metadata": {"name": hook["name"]}, "webhooks": [whole]}


def _handler(answer: Callable[[Json], Json]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer(review["request"])}
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    return Handler
