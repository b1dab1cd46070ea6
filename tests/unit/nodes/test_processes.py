"""Process mode: pods run as processes of this machine."""

import asyncio
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import orjson
import pytest

from pyroclast.api.types import CONFIG_MAPS, NODES, PODS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_standalone.nodes import service
from pyroclast_standalone.nodes.processes import launcher, limits, runtime, shim
from pyroclast_standalone.nodes.processes.launcher import find_isolation, is_shim
from pyroclast_standalone.nodes.processes.layout import Layout, hosts_file, names_of, write_files
from pyroclast_standalone.nodes.volumes import File


async def started(cluster, tmp_path):
    await cluster.start(nodes="1", mode="process", data_dir=str(tmp_path / "nodes"))
    async with asyncio.timeout(60):
        while not (await cluster.client.list(NODES))[0]:
            await asyncio.sleep(0.02)


def printed(tmp_path, pod, attempt=0):
    lines = Layout(tmp_path / "nodes").lines(pod["metadata"]["uid"], "c", attempt)
    return [text for _, text in lines or ()]


async def printed_until(tmp_path, pod, count):
    async with asyncio.timeout(60):
        while len(printed(tmp_path, pod)) < count:
            await asyncio.sleep(0.02)
    return printed(tmp_path, pod)


async def test_pod_process_sees_its_volumes_environment_and_hosts_file(cluster, tmp_path):
    await started(cluster, tmp_path)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"hosts": "one"}}, namespace="default")
    look = "cat /etc/volcano/hosts; echo; grep -c self.svc /etc/hosts; touch /scratch/x && ls /scratch; echo $POD"
    script = f"{look}; sleep 4; cat /etc/volcano/hosts; exit 7"
    pod = await cluster.run_pod(
        "p",
        script,
        hostname="self",
        subdomain="svc",
        volumes=[{"name": "v", "configMap": {"name": "cm"}}, {"name": "e", "emptyDir": {}}],
        container={
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": "v", "mountPath": "/etc/volcano"}, {"name": "e", "mountPath": "/scratch"}],
        },
    )
    assert await printed_until(tmp_path, pod, 4) == ["one", "1", "x", "p"]
    await cluster.client.patch(CONFIG_MAPS, Key("default", "cm"), {"data": {"hosts": "two"}}, PatchKind.MERGE)
    ended = await cluster.until_phase("p", "Failed")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert printed(tmp_path, pod)[-1] == "two"
    assert not os.path.exists("/etc/volcano")  # noqa: ASYNC240 - the machine itself is untouched


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("kill -9 0", 137, id="killed"),
        pytest.param("exit 0", 0, id="well"),
        pytest.param("exec no-such-command", 127, id="not-found"),
    ],
)
async def test_process_exit_code_is_reported_in_the_pod_status(cluster, tmp_path, script, want):
    await started(cluster, tmp_path)
    await cluster.run_pod("p", script)
    pod = await cluster.until_phase("p", "Succeeded", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == want


async def test_deleted_pod_gets_sigterm_and_is_killed_after_the_grace_period(cluster, tmp_path):
    await started(cluster, tmp_path)
    await cluster.run_pod("polite", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    await cluster.run_pod("deaf", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    for name, seconds in (("polite", 30), ("deaf", 1)):
        await printed_until(tmp_path, await cluster.until_phase(name, "Running"), 1)
        await cluster.client.delete(PODS, Key("default", name), grace_seconds=seconds)
    await cluster.until("polite", None)
    await cluster.until("deaf", None)
    phases = {orjson.loads(change.current.data)["metadata"]["name"]: change for change in cluster.server.history("pods")}
    assert orjson.loads(phases["polite"].current.data)["status"]["phase"] == "Succeeded"
    assert orjson.loads(phases["deaf"].current.data)["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_container_whose_start_takes_long_on_a_busy_machine_is_not_lost(cluster, tmp_path, monkeypatch):
    launch, minutes = launcher.Launcher.launch, itertools.count(0, 60)

    def slowly(*arguments, **keywords):
        process = launch(*arguments, **keywords)
        process.send_signal(signal.SIGSTOP)  # the machine has no time for it
        asyncio.get_running_loop().call_later(0.5, process.send_signal, signal.SIGCONT)
        return process

    monkeypatch.setattr(launcher.Launcher, "launch", slowly)
    monkeypatch.setattr(runtime.ProcessRuntime, "_now", property(lambda _: lambda: next(minutes), lambda *_: None), raising=False)
    await started(cluster, tmp_path)
    pod = await cluster.run_pod("p", "echo up")
    assert (await cluster.until_phase("p", "Succeeded", "Failed"))["status"]["phase"] == "Succeeded"
    assert printed(tmp_path, pod) == ["up"]


async def test_container_that_ends_while_its_start_is_observed_keeps_its_exit_code(cluster, tmp_path, monkeypatch):
    def late(pid):
        while is_shim(pid):  # the machine has no time for this process until the other has ended
            time.sleep(0.01)
        return False

    monkeypatch.setattr(runtime, "is_shim", late)
    await started(cluster, tmp_path)
    await cluster.run_pod("p", "sleep 0.3; exit 3")
    pod = await cluster.until_phase("p", "Succeeded", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_background_processes_are_killed_when_the_container_ends(cluster, tmp_path):
    await started(cluster, tmp_path)
    pod = await cluster.run_pod("p", "setsid sh -c 'sleep 600 & echo $!; wait' & sleep 0.5; exit 3")
    await cluster.until_phase("p", "Failed")
    assert not os.path.exists(f"/proc/{printed(tmp_path, pod)[0]}")  # noqa: ASYNC240


@pytest.mark.skipif(find_isolation() == "none", reason="processes cannot be given a host name of their own here")
async def test_pod_resolves_its_host_name_to_its_address(cluster, tmp_path):
    await started(cluster, tmp_path)
    script = "python3 -c 'import socket; name = socket.gethostname(); print(name, socket.gethostbyname(name))'"
    pod = await cluster.run_pod("p", script)
    ended = await cluster.until_phase("p", "Succeeded")
    assert printed(tmp_path, pod) == [f"p {ended['status']['podIP']}"]


async def test_pod_network_in_process_mode_is_chosen_at_random(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(service.secrets, "randbelow", lambda count: count // 2)
    await started(cluster, tmp_path)
    await cluster.run_pod("p", "exit 0")
    assert (await cluster.until_phase("p", "Succeeded"))["status"]["podIP"] == "127.96.0.1"


async def test_restarted_node_service_resumes_running_containers_after_a_kill(cluster, tmp_path):
    command = [sys.executable, "-m", "pyroclast_standalone.nodes", "--kubeconfig", str(cluster.server.kubeconfig)]
    command += ["--nodes", "1", "--mode", "process", "--data-dir", str(tmp_path / "nodes"), "--log-format", "json"]
    nodes = await asyncio.create_subprocess_exec(*command)
    try:
        await cluster.run_pod("ends", "echo up; sleep 1; exit 4")
        goes_on = await cluster.run_pod("goes-on", "echo up; sleep 4; echo done")
        await cluster.until_phase("ends", "Running")
        await cluster.until_phase("goes-on", "Running")
        nodes.kill()
        await nodes.wait()
        await asyncio.sleep(1.2)
        nodes = await asyncio.create_subprocess_exec(*command)
        ended = await cluster.until_phase("ends", "Failed")
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
        await cluster.until_phase("goes-on", "Succeeded")
        assert printed(tmp_path, goes_on) == ["up", "done"]
    finally:
        nodes.send_signal(signal.SIGTERM)
        await nodes.wait()


async def test_unresponsive_shim_is_killed_when_the_service_stops(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "_STOP_SECONDS", 0.2)
    await started(cluster, tmp_path)
    await cluster.run_pod("p", "sleep 60")
    pod = await cluster.until_phase("p", "Running")
    shim = Layout(tmp_path / "nodes").running(pod["metadata"]["uid"], "c", 0).shim
    os.kill(shim, signal.SIGSTOP)
    await cluster.stop()
    assert not is_shim(shim)


def test_volume_files_are_replaced_when_changed_and_removed_when_absent(tmp_path):
    assert write_files(tmp_path, {"a": File(b"1"), "sub/b": File(b"2", 0o600)})
    assert not write_files(tmp_path, {"a": File(b"1"), "sub/b": File(b"2", 0o600)})
    assert (tmp_path / "sub" / "b").stat().st_mode & 0o777 == 0o600
    assert write_files(tmp_path, {"a": File(b"3")})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"3"


def test_hosts_file_lists_the_pod_host_aliases_and_peer_names():
    assert names_of("1.1.1.1", hostname="a", subdomain="", namespace="ns") is None
    other = names_of("1.1.1.2", hostname="b", subdomain="job", namespace="ns")
    text = hosts_file(("1.1.1.1", ("a",)), [other], [{"ip": "9.9.9.9", "hostnames": ["x", "y"]}])
    assert text.splitlines()[2:] == [
        "1.1.1.1\ta",
        "9.9.9.9\tx y",
        "1.1.1.2\tb.job b.job.ns b.job.ns.svc b.job.ns.svc.cluster.local",
    ]


@pytest.mark.parametrize(
    ("container", "script", "want"),
    [
        pytest.param({}, "printf done > /dev/termination-log", "done", id="usual-path"),
        pytest.param({"terminationMessagePath": "/run/told"}, "printf why > /run/told; exit 2", "why", id="path-of-its-own"),
        pytest.param({}, "head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log", "x" * 4096, id="cut"),
        pytest.param({}, "echo said; exit 1", "", id="not-from-the-log"),
        pytest.param(
            {"terminationMessagePolicy": "FallbackToLogsOnError"}, "echo a; echo b; exit 1", "a\nb\n", id="from-the-log"
        ),
        pytest.param({"terminationMessagePolicy": "FallbackToLogsOnError"}, "echo a", "", id="not-when-it-ended-well"),
    ],
)
async def test_a_container_leaves_a_termination_message(cluster, tmp_path, container, script, want):
    await started(cluster, tmp_path)
    await cluster.run_pod("p", script, container=container)
    pod = await cluster.until_phase("p", "Succeeded", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"].get("message", "") == want
    assert not os.path.exists("/dev/termination-log")  # noqa: ASYNC240 - the machine itself is untouched


async def test_probe_keeps_the_environment_of_its_container_when_the_config_map_is_deleted(cluster, tmp_path):
    await started(cluster, tmp_path)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "cm"}, "data": {"word": "here"}}, namespace="default")
    seen = tmp_path / "seen"
    probe = {"exec": {"command": ["sh", "-c", f"echo $word >> {seen}"]}, "periodSeconds": 1}
    container = {"envFrom": [{"configMapRef": {"name": "cm"}}], "readinessProbe": probe}
    await cluster.run_pod("p", "sleep 100", container=container)
    await cluster.until("p", lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("ready"))
    await cluster.client.delete(CONFIG_MAPS, Key("default", "cm"))
    await asyncio.sleep(runtime._REFRESH_SECONDS)  # no content is remembered that long
    before = len(seen.read_text())
    async with asyncio.timeout(20):
        while len(seen.read_text()) == before:
            await asyncio.sleep(0.05)
    assert set(seen.read_text().split("\n")) == {"here", ""}
    assert (await cluster.get("p"))["status"]["containerStatuses"][0]["ready"]


async def on_this_machine(cluster, tmp_path):
    await cluster.start(machine="true", mode="process", data_dir=str(tmp_path / "nodes"))
    async with asyncio.timeout(60):
        while not (nodes := (await cluster.client.list(NODES))[0]):
            await asyncio.sleep(0.02)
    return nodes[0]["metadata"]["name"]


@pytest.mark.parametrize("groups", ["found", "none"])
async def test_limits_of_a_pod_hold_with_and_without_control_groups(cluster, tmp_path, monkeypatch, groups):
    if groups == "none":
        monkeypatch.setattr(limits, "find_groups", lambda _name: limits.Groups())
    node = await on_this_machine(cluster, tmp_path)
    script = "python3 -c 'import os; print(len(os.sched_getaffinity(0)))'; echo $OMP_NUM_THREADS; python3 -c '{}'; exit 1"
    script = script.format("import time; x = bytearray(200_000_000); time.sleep(20)")
    resources = {"limits": {"cpu": "1", "memory": "100Mi"}}
    pod = await cluster.run_pod("p", script, node=node, container={"resources": resources})
    ended = await cluster.until_phase("p", "Failed")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
    assert printed(tmp_path, pod)[:2] == ["1" if groups == "none" else str(os.cpu_count()), "1"]


async def test_log_of_a_container_is_bounded_and_followed_over_its_rotation(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_SHIM", tmp_path / "shim.py")
    text = Path(shim.__file__).read_text().replace("50 * 1024 * 1024", "4000")  # noqa: ASYNC240
    (tmp_path / "shim.py").write_text(text)
    await started(cluster, tmp_path)
    pod = await cluster.run_pod("p", "for i in $(seq 1000); do echo line $i; sleep 0.002; done")
    await cluster.until_phase("p", "Running")
    url = "/api/v1/namespaces/default/pods/p/log"
    followed = (await cluster.client.request("GET", url, query={"follow": "true"})).decode().splitlines()
    assert followed == [f"line {number}" for number in range(1, 1001)]
    assert 50 < len(printed(tmp_path, pod)) < 200


async def test_restarted_service_removes_what_is_left_of_deleted_pods(cluster, tmp_path):
    await started(cluster, tmp_path)
    pod = await cluster.run_pod("p", "echo up; sleep 600")
    await printed_until(tmp_path, pod, 1)
    folder = Layout(tmp_path / "nodes").pod(pod["metadata"]["uid"])
    pid = orjson.loads((folder / "containers/c/0/state").read_bytes())["pid"]
    cluster.nodes.cancel()
    left = tmp_path / "nodes/pods/gone"
    left.mkdir()
    await cluster.stop()
    await cluster.client.delete(PODS, Key("default", "p"), grace_seconds=0)
    await started(cluster, tmp_path)
    async with asyncio.timeout(20):
        while folder.exists() or left.exists():
            await asyncio.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240
