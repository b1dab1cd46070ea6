"""Credentials of an exec plugin, of an OIDC provider and in files that are replaced: each a real one, made for the test."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ConnectionFailed, Unauthorized
from pyroclast.kube.credentials import cloud as cloud_credentials
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.unit.kube.authority import Authority, serving
from tests.unit.kube.fault_server import FaultServer, Got, answer, status
from tests.unit.kube.test_config import kubeconfig

V1 = "client.authentication.k8s.io/v1"
ONE = "/api/v1/namespaces/ns/pods/p"


class Plugin:
    """An exec plugin: a program that counts its runs and prints what `says` holds."""

    def __init__(self, folder: Path, before: str = "") -> None:
        self.says = folder / "says.json"
        self.runs_file = folder / "runs"
        self.file = folder / "plugin"
        self.file.write_text(
            f"#!{sys.executable}\nimport os, sys, time\nwith open({str(self.runs_file)!r}, 'a') as runs:\n"
            f"    runs.write(str(os.getpid()) + '\\n')\n{before}\nprint(open({str(self.says)!r}).read())\n"
        )
        self.file.chmod(0o755)

    def say(self, **status: Any) -> None:
        self.says.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))

    @property
    def runs(self) -> list[str]:
        return self.runs_file.read_text().split() if self.runs_file.exists() else []

    @property
    def user(self) -> dict[str, Any]:
        return {"exec": {"apiVersion": V1, "command": "./plugin", "interactiveMode": "Never"}}


def accepts(token: str) -> Any:
    async def step(got: Got) -> None:
        well = got.headers.get("authorization") == f"Bearer {token}"
        await (answer(200, {"metadata": {"name": "p"}}) if well else status(401, "Unauthorized"))(got)

    return step


async def read(client: Client, seconds: float = 30.0) -> dict[str, Any]:
    return await client.get(PODS, Key("ns", "p"), deadline=Deadline.after(seconds))


async def test_an_exec_plugin_runs_once_for_concurrent_and_later_requests(tmp_path: Path, server: FaultServer) -> None:
    plugin = Plugin(tmp_path, before="time.sleep(0.3)")
    plugin.say(token="one")
    server.on(f"GET {ONE}", accepts("one"))
    async with Client(load_config(kubeconfig(tmp_path, server.url, plugin.user))) as client:
        await asyncio.gather(*(read(client) for _ in range(10)))
        await read(client)
    assert len(plugin.runs) == 1


async def test_an_exec_plugin_runs_again_when_its_token_expires_or_is_refused(
    tmp_path: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_credentials, "REFUSED_SECONDS", 0.0)
    plugin = Plugin(tmp_path)
    plugin.say(token="one", expirationTimestamp=(datetime.now(UTC) + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ"))
    server.on(f"GET {ONE}", accepts("one"))
    async with Client(load_config(kubeconfig(tmp_path, server.url, plugin.user))) as client:
        await read(client)
        plugin.say(token="two")
        server.on(f"GET {ONE}", accepts("two"))
        await read(client)  # the first had less left than the leeway
        assert len(plugin.runs) == 2
        plugin.say(token="three")
        server.on(f"GET {ONE}", accepts("three"))
        await asyncio.gather(*(read(client) for _ in range(10)))  # refused all together
    assert len(plugin.runs) == 3


async def test_an_exec_plugin_whose_token_is_refused_does_not_run_for_each_request(tmp_path: Path, server: FaultServer) -> None:
    plugin = Plugin(tmp_path)
    plugin.say(token="wrong")
    server.on(f"GET {ONE}", status(401, "Unauthorized"))
    async with Client(load_config(kubeconfig(tmp_path, server.url, plugin.user))) as client:
        for _ in range(10):
            with pytest.raises(Unauthorized):
                await read(client)
    assert len(plugin.runs) == 1


async def test_a_failing_exec_plugin_is_reported_with_its_message_and_retried_with_backoff(
    tmp_path: Path, server: FaultServer
) -> None:
    plugin = Plugin(tmp_path, before="sys.exit('log in first')")
    async with Client(load_config(kubeconfig(tmp_path, server.url, plugin.user))) as client:
        said: list[str] = []
        async with asyncio.timeout(60):
            while len(said) < 20:
                with pytest.raises(ConnectionFailed) as caught:
                    await read(client, 0.05)
                if "no credentials" in str(caught.value):
                    said.append(str(caught.value))
                    assert not caught.value.sent
    assert all(each.endswith("no credentials: exec: process returned 1. log in first") for each in said)
    assert len(plugin.runs) <= 3  # first after a second at the earliest, then after two
    assert server.requests == []


async def test_a_hanging_exec_plugin_delays_a_request_only_to_its_deadline_and_is_killed(
    tmp_path: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_credentials, "ASK_SECONDS", 1.0)
    plugin = Plugin(tmp_path, before="time.sleep(1000)")
    async with Client(load_config(kubeconfig(tmp_path, server.url, plugin.user))) as client:
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionFailed) as caught:
                await read(client, 0.3)
        assert "no credentials" not in str(caught.value), "the request waited for the end of the plugin"
        async with asyncio.timeout(60):
            while not plugin.runs or os.path.exists(f"/proc/{plugin.runs[0]}"):  # noqa: ASYNC240 - /proc does not wait
                await asyncio.sleep(0.05)
        with pytest.raises(ConnectionFailed, match=r"no credentials: exec: process returned 1\. no answer within 1\.0 s"):
            await read(client, 0.3)
    assert len(plugin.runs) == 1


async def test_a_client_certificate_of_an_exec_plugin_is_used_and_renewed_when_it_expires(tmp_path: Path) -> None:
    authority, plugin = Authority(), Plugin(tmp_path)
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        subject = dict(pair for part in request.transport.get_extra_info("peercert")["subject"] for pair in part)
        seen.append(subject["commonName"])
        return web.json_response({})

    def say(name: str, seconds: float) -> None:
        certificate, key = authority.issue(name)
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        plugin.say(clientCertificateData=certificate.decode(), clientKeyData=key.decode(), expirationTimestamp=until)

    async with serving(handle, authority.tls(tmp_path, clients=True)) as url:
        ca = base64.b64encode(authority.pem).decode()
        config = load_config(kubeconfig(tmp_path, url, plugin.user, **{"certificate-authority-data": ca}))
        say("first", 1)
        async with Client(config) as client:
            await read(client)
            say("second", 1000)
            await asyncio.gather(read(client), read(client))
    assert seen == ["first", "second", "second"]
    assert len(plugin.runs) == 2


async def test_a_client_certificate_renewed_on_disk_is_loaded_after_the_old_one_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    allowed = "old"

    async def handle(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        subject = dict(pair for part in request.transport.get_extra_info("peercert")["subject"] for pair in part)
        return web.json_response({}, status=200 if subject["commonName"] == allowed else 401)

    def put(name: str) -> None:
        certificate, key = authority.issue(name)
        (tmp_path / "client.crt").write_bytes(certificate)
        (tmp_path / "client.key").write_bytes(key)

    put("old")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    async with serving(handle, authority.tls(tmp_path, clients=True)) as url:
        user = {"client-certificate": "client.crt", "client-key": "client.key"}
        async with Client(load_config(kubeconfig(tmp_path, url, user, **{"certificate-authority": "ca.crt"}))) as client:
            await read(client)
            allowed = "new"
            with pytest.raises(Unauthorized):
                await read(client)
            put("new")
            await asyncio.gather(*(read(client) for _ in range(5)))


class Provider:
    """An OIDC provider that takes each refresh token once, if it `rotates`."""

    def __init__(self, *, rotates: bool = True) -> None:
        self.rotates = rotates
        self.refresh_token = "refresh-0"
        self.refreshes = 0
        self.url = ""

    def id_token(self, seconds: float) -> str:
        def part(value: Any) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        claims = {"sub": f"user-{self.refreshes}", "exp": int(time.time() + seconds)}
        return f"{part({'alg': 'none'})}.{part(claims)}.{part('signature')}"

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"token_endpoint": f"{self.url}/token"})
        form = await request.post()
        if form["refresh_token"] != self.refresh_token:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.refreshes += 1
        body = {"id_token": self.id_token(3600)}
        if self.rotates:
            self.refresh_token = body["refresh_token"] = f"refresh-{self.refreshes}"
        return web.json_response(body)


def oidc_user(provider: Provider, ca: bytes | None) -> dict[str, Any]:
    config = {
        "client-id": "us",
        "id-token": provider.id_token(-10),
        "idp-issuer-url": provider.url,
        "refresh-token": provider.refresh_token,
    }
    if ca is not None:
        config["idp-certificate-authority-data"] = base64.b64encode(ca).decode()
    return {"auth-provider": {"name": "oidc", "config": config}}


@pytest.mark.parametrize("rotates", [True, False])
async def test_an_oidc_token_is_refreshed_when_expired_or_refused_and_its_refresh_token_is_saved(
    tmp_path: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch, rotates: bool
) -> None:
    monkeypatch.setattr(cloud_credentials, "REFUSED_SECONDS", 0.0)
    authority, provider = Authority(), Provider(rotates=rotates)
    server.on(f"GET {ONE}", answer(200, {}))
    async with serving(provider.handle, authority.tls(tmp_path)) as provider.url:
        file = kubeconfig(tmp_path, server.url, oidc_user(provider, authority.pem))
        async with Client(load_config(file)) as client:
            await asyncio.gather(*(read(client) for _ in range(5)))
            assert provider.refreshes == 1
            server.on(f"GET {ONE}", status(401, "Unauthorized"), answer(200, {}))
            await read(client)  # the token was withdrawn before its end
            assert provider.refreshes == 2
        async with Client(load_config(file)) as client:  # after a restart
            server.on(f"GET {ONE}", status(401, "Unauthorized"), answer(200, {}))
            await read(client)
            assert provider.refreshes == 3
    tokens = [got.headers["authorization"].removeprefix("Bearer ") for got in server.requests]
    assert json.loads(base64.b64decode(tokens[-1].split(".")[1] + "==="))["sub"] == "user-3"
    kept = yaml.safe_load(Path(file).read_text())  # noqa: ASYNC240 - a small file
    assert kept["users"][0]["user"]["auth-provider"]["config"]["refresh-token"] == provider.refresh_token
    assert os.stat(file).st_mode & 0o077 == 0


async def test_an_oidc_provider_with_an_untrusted_certificate_receives_no_refresh_token(
    tmp_path: Path, server: FaultServer
) -> None:
    authority, provider = Authority(), Provider()
    async with serving(provider.handle, authority.tls(tmp_path)) as provider.url:
        file = kubeconfig(tmp_path, server.url, oidc_user(provider, None))
        async with Client(load_config(file)) as client:
            with pytest.raises(ConnectionFailed, match=r"no credentials: .*certificate verify failed"):
                await read(client, 3.0)
    assert provider.refreshes == 0
    assert server.requests == []
