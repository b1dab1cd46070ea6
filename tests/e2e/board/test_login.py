"""Who gets past the login of the web page: not tokens that are missing, expired or revoked, nor headers that name a user."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from pyroclast_standalone.processes import free_port
from tests.e2e.support.cluster import Cluster, wait_until

REVIEW_SECONDS = 1


class Login:
    """A board with the rights of the installed one, asked over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url

    def open(self, path: str, token: str = "", method: str = "GET", **headers: str) -> HTTPResponse:
        """The answer, still open."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self._url + path, headers=given, method=method)
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=60)
        return answer

    def status(self, path: str, token: str = "", method: str = "GET", **headers: str) -> int:
        """The status alone."""
        try:
            with self.open(path, token, method, **headers) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


@contextlib.contextmanager
def board(cluster: Cluster, folder: Path) -> Iterator[int]:
    """A board as a process of its own; its port."""
    port = free_port()
    credentials = next((cluster.data / "accounts").glob("*-board.kubeconfig"))
    command = [sys.executable, "-m", "pyroclast_board", "--kubeconfig", str(credentials), "--page-address", f"127.0.0.1:{port}"]
    with (folder / "board.log").open("wb") as log:
        process = subprocess.Popen([*command, "--review-period", f"{REVIEW_SECONDS}s"], stdout=log, stderr=log)
    try:
        wait_until(lambda: _listens(port) or process.poll() is not None, "the board to listen")
        assert process.poll() is None, (folder / "board.log").read_text()
        yield port
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def with_lifetime(cluster: Cluster, token: str, seconds: int) -> str:
    """The same token, which the API server has signed to be good for `seconds` from now on."""
    head, body, _ = token.split(".")
    now = int(time.time())
    claims = {**json.loads(_decoded(body)), "exp": now + seconds, "iat": now - 3600, "nbf": now - 3600}
    content = f"{head}.{_encoded(json.dumps(claims).encode())}".encode()
    signing = next(
        (cluster.server.plane.directory if cluster.server else cluster.data).rglob("service-accounts.key")
    ).read_bytes()
    if cluster.server is None:
        return f"{content.decode()}.{_encoded(hmac.new(signing, content, hashlib.sha256).digest())}"
    key = serialization.load_pem_private_key(signing, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    numbers = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
    return f"{content.decode()}.{_encoded(b''.join(number.to_bytes(32, 'big') for number in numbers))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.timeout(480)
def test_board_refuses_missing_expired_and_revoked_tokens_with_401_and_writes_with_405(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.kubectl("create", "serviceaccount", "ann", "-n", namespace)
    account = f"--serviceaccount={namespace}:ann"
    cluster.kubectl("create", "rolebinding", "ann", "-n", namespace, "--clusterrole=pyroclast-user", account)
    token = cluster.kubectl("create", "token", "ann", "-n", namespace).strip()
    with board(cluster, tmp_path) as port:
        login = Login(f"http://127.0.0.1:{port}")
        assert login.status("/jobs") == 401
        assert login.status("/jobs", with_lifetime(cluster, token, -60)) == 401
        assert login.status("/jobs", with_lifetime(cluster, token, 600)) == 200
        assert login.status("/jobs", X_Remote_User="kubernetes-admin", X_Remote_Group="system:masters") == 401
        wait_until(lambda: login.status("/jobs", token) == 200, "the token to be known")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert login.status("/jobs", token, method) == 405
        with login.open("/live/jobs", token) as stream:
            assert stream.readline().startswith(b"retry")
            cluster.kubectl("delete", "serviceaccount", "ann", "-n", namespace)
            assert b"event: reload" in stream.read()  # it ends
        assert login.status("/jobs", token) == 401
