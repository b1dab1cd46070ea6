"""Commands in containers: `exec` over the API server to the nodes, with pipes and with a terminal."""

import asyncio
import ssl

import aiohttp
import orjson
import pytest

from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Forbidden
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http import exec as channels
from pyroclast.kube.http.client import Client

POD = Key("default", "p")


async def pod(cluster, tmp_path, script="sleep 60", mode="process", **more):
    await cluster.start(nodes="1", mode=mode, data_dir=str(tmp_path / "nodes"))
    async with asyncio.timeout(60):
        while not (await cluster.client.list(NODES))[0]:
            await asyncio.sleep(0.02)
    await cluster.run_pod("p", script, **more)
    return await cluster.until_phase("p", "Running")


async def printed(client, *command, tty=False, send=()):
    """Run a command to its end: what it printed by channel, and its exit code."""
    output = {channels.STDOUT: b"", channels.STDERR: b""}
    async with asyncio.timeout(60), channels.attached(client, POD, "c", command, tty=tty) as socket:
        for message in send:
            await socket.send_bytes(message)
        async for message in socket:
            channel, data = message.data[0], message.data[1:]
            if channel == channels.END:
                return output[channels.STDOUT].decode(), output[channels.STDERR].decode(), channels.exit_code_of(data)[0]
            output[channel] += data
    raise AssertionError("the command has no end")


async def test_a_command_runs_with_the_environment_and_volumes_of_its_container(cluster, tmp_path):
    volume = {"volumes": [{"name": "e", "emptyDir": {}}]}
    container = {"env": [{"name": "COLOUR", "value": "red"}], "volumeMounts": [{"name": "e", "mountPath": "/shared-by-exec"}]}
    await pod(cluster, tmp_path, "echo here > /shared-by-exec/file; sleep 60", container=container, **volume)
    script = 'until cat /shared-by-exec/file; do :; done 2> /dev/null; echo "$COLOUR" >&2; exit 7'
    assert await printed(cluster.client, "sh", "-c", script) == ("here\n", "red\n", 7)


async def test_input_reaches_the_command_and_its_end_ends_it(cluster, tmp_path):
    await pod(cluster, tmp_path)
    close = bytes([channels.CLOSE, channels.STDIN])
    assert await printed(cluster.client, "cat", send=(b"\x00one\n", b"\x00two\n", close)) == ("one\ntwo\n", "", 0)


async def test_a_terminal_has_the_size_of_the_clients_and_a_shell_reads_from_it(cluster, tmp_path):
    await pod(cluster, tmp_path)
    size = bytes([channels.SIZE]) + orjson.dumps({"Width": 91, "Height": 17})
    shown, _, code = await printed(cluster.client, "sh", tty=True, send=(size, b"\x00stty size; test -t 0; exit 4\n"))
    assert "17 91" in shown
    assert code == 4


async def test_the_command_of_a_client_that_goes_is_hung_up_and_that_of_a_container_that_ends_is_killed(cluster, tmp_path):
    await pod(cluster, tmp_path, "until [ -e ../stop ]; do sleep 0.1; done", container={"workingDir": str(tmp_path)})
    script = f"trap 'echo gone > {tmp_path}/hangup; exit' HUP; while :; do sleep 0.1; done"
    async with channels.attached(cluster.client, POD, "c", ("sh", "-c", script), tty=True):
        await asyncio.sleep(0.5)
    async with asyncio.timeout(60):
        while not (tmp_path / "hangup").exists():
            await asyncio.sleep(0.05)
    async with channels.attached(cluster.client, POD, "c", ("sh", "-c", "trap '' HUP TERM; sleep 60"), tty=False) as socket:
        await cluster.client.delete(PODS, POD, grace_seconds=0)
        async with asyncio.timeout(60):
            messages = [message.data async for message in socket]
    assert not messages or channels.exit_code_of(messages[-1][1:])[0] in {137, channels.UNKNOWN_CODE}


async def test_only_who_may_create_pods_exec_may_run_commands(cluster, tmp_path):
    await pod(cluster, tmp_path)
    config = load_config(str(cluster.server.kubeconfig))
    reader = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    }
    for plural, body in (("clusterroles", reader), ("clusterrolebindings", binding)):
        path = f"/apis/rbac.authorization.k8s.io/v1/{plural}"
        await cluster.client.request("POST", path, body=orjson.dumps(body))
    from dataclasses import replace

    async with Client(replace(config, impersonation=(("Impersonate-User", "ada"),))) as ada:
        assert (await ada.get(PODS, POD))["metadata"]["name"] == "p"
        with pytest.raises(Forbidden, match='User "ada" cannot create resource "pods/exec" in API group "" in the namespace'):
            await printed(ada, "true")


async def test_simulated_nodes_say_that_they_only_pretend(cluster, tmp_path):
    await pod(cluster, tmp_path, mode="simulated")
    with pytest.raises((ApiError, ConnectionFailed), match="only pretend"):
        await printed(cluster.client, "true")


async def test_exec_without_an_upgrade_is_refused_as_by_kube_apiserver(cluster, tmp_path):
    await pod(cluster, tmp_path)
    with pytest.raises(ApiError, match="Upgrade request required"):
        await cluster.client.request("GET", PODS.path("default", "p", "exec"), query={"command": "true"})


async def test_the_nodes_run_no_command_of_anybody_but_the_api_server(cluster, tmp_path):
    await pod(cluster, tmp_path)
    (node,), _ = await cluster.client.list(NODES)
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await session.ws_connect(f"https://127.0.0.1:{port}/exec/default/p/c?command=true", ssl=context)
    assert refusal.value.status == 403
