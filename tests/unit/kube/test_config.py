from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.credentials import config
from pyroclast.kube.credentials.authorization import TokenFile
from pyroclast.kube.credentials.config import ClusterConfig, ConfigError, load_config
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.connections import Connections, Request
from tests.unit.kube.fault_server import FaultServer, answer


def kubeconfig(path: Path, server: str = "https://127.0.0.1:6443/", user: dict[str, Any] | None = None, **cluster: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file = path / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return str(file)


async def test_inline_kubeconfig_certificates_and_token_are_loaded(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    user = {"client-certificate-data": data, "client-key-data": data, "token": "t"}
    loaded = load_config(kubeconfig(tmp_path, user=user, **{"certificate-authority-data": data, "tls-server-name": "api"}))
    assert loaded.server == "https://127.0.0.1:6443"
    assert (loaded.namespace, loaded.server_name, loaded.insecure) == ("team", "api", False)
    assert loaded.authority.read() == loaded.certificate.read() == loaded.key.read() == b"PEM"
    assert await loaded.credentials.authorization() == "Bearer t"


async def test_relative_paths_in_a_kubeconfig_are_resolved_from_its_directory(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key", "token"):
        (tmp_path / name).write_text(name)
    user = {"client-certificate": "cert", "client-key": "key", "tokenFile": "token"}
    loaded = load_config(kubeconfig(tmp_path, user=user, **{"certificate-authority": "ca"}))
    assert [pem.read() for pem in (loaded.authority, loaded.certificate, loaded.key)] == [b"ca", b"cert", b"key"]
    assert await loaded.credentials.authorization() == "Bearer token"


async def test_several_kubeconfigs_are_merged_and_the_first_entry_of_a_name_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "token").write_text(folder.name)
    contexts = [{"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "other"}}]
    (first / "config").write_text(
        yaml.safe_dump({"contexts": contexts, "users": [{"name": "u", "user": {"tokenFile": "token"}}]})
    )
    files = [first / "config", Path(kubeconfig(second, user={"tokenFile": "token"}))]
    here, there = load_config(files), load_config(files, context="there")
    assert (here.namespace, there.namespace) == ("team", "other")
    assert here.server == there.server == "https://127.0.0.1:6443"
    assert await here.credentials.authorization() == "Bearer first"


def test_a_missing_context_raises_an_error_that_names_all_kubeconfigs(tmp_path: Path) -> None:
    file = Path(kubeconfig(tmp_path))
    other = tmp_path / "other"
    other.write_text("users: []")
    with pytest.raises(ConfigError, match=f'{file}{os.pathsep}{other}: contexts has no usable entry "nowhere"'):
        load_config([file, other], context="nowhere")


async def test_username_and_password_become_a_basic_authorization_header(tmp_path: Path) -> None:
    loaded = load_config(kubeconfig(tmp_path, user={"username": "a", "password": "b"}))
    assert await loaded.credentials.authorization() == "Basic YTpi"


def test_master_overrides_the_server(tmp_path: Path) -> None:
    assert load_config(kubeconfig(tmp_path), master="http://other:1").server == "http://other:1"
    assert load_config(master="http://other:1/").server == "http://other:1"


def test_in_cluster_config_is_read_from_the_service_account_and_environment(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "c"), ("namespace", "mine\n")):
        (tmp_path / name).write_text(text)
    loaded = config._in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert (loaded.server, loaded.namespace, loaded.authority.read()) == ("https://10.0.0.1:6443", "mine", b"c")
    six = config._in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert six.server == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty, or not a mapping"),
        ("- a", "empty, or not a mapping"),
        ("a: [", "not YAML: .*, line 2"),
        ("kind: Config", "current-context is not set"),
        ("current-context: x", 'contexts has no usable entry "x"'),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", 'clusters has no usable entry "c"'),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {server: nope}}]}",
            'the server of cluster c is "nope", which is not a URL',
        ),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {}}]}",
            'users has no usable entry "u"',
        ),
        (
            (
                "{current-context: x, contexts: [{name: x, context: {cluster: c}}],"
                " clusters: [{name: c, cluster: {server: 'https://a', certificate-authority-data: 'x'}}]}"
            ),
            "certificate-authority-data is not base64",
        ),
    ],
)
def test_an_invalid_kubeconfig_raises_a_one_line_error_that_names_the_file(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        load_config(str(file))
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_loading_without_a_usable_configuration_raises_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="No such file"):
        load_config(str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="no --kubeconfig is given and this is not a pod"):
        load_config()
    with pytest.raises(ConfigError, match="--master is"):
        load_config(master="nonsense")
    with pytest.raises(ConfigError, match="does not exist"):
        config._in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "h"})


@pytest.mark.parametrize(
    "user", [{}, {"client-certificate": "absent", "client-key": "absent"}, {"client-certificate-data": "eA=="}]
)
async def test_unusable_certificates_raise_config_error_when_the_client_starts(tmp_path: Path, user: dict[str, Any]) -> None:
    authority = {"insecure-skip-tls-verify": True} if user else {"certificate-authority": "absent"}
    loaded = load_config(kubeconfig(tmp_path, user=user, **authority))
    with pytest.raises(ConfigError, match=r"https://127\.0\.0\.1:6443"):
        async with Client(loaded):
            pass


def test_ssl_context_is_none_for_http_and_skips_hostname_checks_when_insecure() -> None:
    assert ClusterConfig("http://a").ssl_context() is None
    context = ClusterConfig("https://a", insecure=True).ssl_context()
    assert context is not None
    assert not context.check_hostname


async def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "token"
    file.write_text("one")
    token = TokenFile(file, clock=lambda: now)
    assert await token.authorization() == "Bearer one"
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert await token.authorization() == "Bearer one"
    now = 11.0
    assert await token.authorization() == "Bearer two"
    file.unlink()
    now = 22.0
    assert await token.authorization() == "Bearer two"


async def test_a_missing_token_file_raises_connection_failed(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="token"):
        await TokenFile(tmp_path / "absent").authorization()


async def test_the_token_of_an_exec_plugin_is_sent_as_authorization_header(tmp_path: Path, server: FaultServer) -> None:
    plugin = tmp_path / "plugin"
    answered = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "secret"}}
    plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(json.dumps(answered))})\n")
    plugin.chmod(0o755)
    execute = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    file = Path(kubeconfig(tmp_path, user={"exec": execute}))
    contexts = tmp_path / "contexts"  # the context stands in another file than its user
    contexts.write_text(yaml.safe_dump({"contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}]}))
    loaded = load_config([contexts, file], master=server.url, context="there")
    server.on("GET /version", answer(200, {}))
    async with Client(loaded) as client:
        await client.request("GET", "/version")
    assert server.requests[0].headers["authorization"] == "Bearer secret"


AS = {"as": "dev-viewer", "as-uid": "7", "as-groups": ["viewers", "all"], "as-user-extra": {"example.com/project%": ["a", "b"]}}


@pytest.mark.parametrize("request_", [Request("GET", "/api"), Request("POST", "/api", body=b"{}")], ids=["get", "post"])
async def test_the_user_that_a_kubeconfig_acts_as_is_named_in_each_request(request_: Request, tmp_path: Path) -> None:
    config = load_config(kubeconfig(tmp_path, user={"token": "t", **AS}))
    connections = Connections(config, None, "test")
    head = connections.message(request_, "Bearer t").decode().partition("\r\n\r\n")[0]
    await connections.close()
    assert [line for line in head.split("\r\n") if line.startswith("Impersonate-")] == [
        "Impersonate-User: dev-viewer",
        "Impersonate-Uid: 7",
        "Impersonate-Group: viewers",
        "Impersonate-Group: all",
        "Impersonate-Extra-example.com%2Fproject%25: a",
        "Impersonate-Extra-example.com%2Fproject%25: b",
    ]


async def test_a_name_to_act_as_with_a_line_end_sends_nothing(tmp_path: Path, server: FaultServer) -> None:
    config = load_config(kubeconfig(tmp_path, user={"as": "x\r\nImpersonate-Group: system:masters"}), master=server.url)
    async with Client(config) as client:
        with pytest.raises(ConnectionFailed, match="Impersonate-User is not one line"):
            await client.request("GET", "/version")
    assert server.requests == []


@pytest.mark.parametrize(
    ("user", "words"),
    [
        pytest.param({"as-groups": ["system:masters"]}, "without `as`", id="groups-alone"),
        pytest.param({"as": "x", "as-groups": "viewers"}, "as-groups must be a list of texts", id="groups-no-list"),
        pytest.param({"as": ["x"]}, "as and as-uid must be texts", id="as-no-text"),
        pytest.param({"as": "x", "as-user-extra": {"a": "b"}}, "as-user-extra must be a map of lists", id="extra-no-list"),
        pytest.param({"impersonate": "x"}, 'user "u" has the field impersonate, which this program does not support', id="user"),
    ],
)
def test_impersonation_that_cannot_be_honoured_is_an_error(tmp_path: Path, user: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match="kubeconfig") as raised:
        load_config(kubeconfig(tmp_path, user=user))
    assert words in str(raised.value)


def test_fields_that_are_not_supported_are_errors_only_where_they_are_used(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, **{"disable-compression": True, "extensions": []})
    assert load_config(file).impersonation == ()
    with pytest.raises(ConfigError, match='cluster "c" has the field proxy, which this program does not support; it'):
        load_config(kubeconfig(tmp_path, proxy="x"))
    document = yaml.safe_load(Path(kubeconfig(tmp_path)).read_text())
    document["users"].append({"name": "other", "user": {"sso": "x"}})
    Path(file).write_text(yaml.safe_dump(document))
    assert load_config(file).namespace == "team"
