"""A user's half hour with `vcctl` alone, as real processes: submit, why, cancel, a flow as a tree, shares of queues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.shell import PROGRAMS, Shell


@pytest.fixture
def shell(cluster: Cluster, namespace: str, tmp_path: Path) -> Shell:
    """The programs with a kubeconfig whose context names the test's namespace."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in document["contexts"]:
        context["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    return Shell(tmp_path / "kubeconfig", namespace)


@pytest.fixture
def queue(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A queue of the test's own that may have 2 cpu."""
    name = f"{namespace}-q"
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    cluster.create(json.dumps({**body, "spec": {"weight": 1, "capability": {"cpu": "2"}}}))
    yield name
    cluster.kubectl("delete", "queue", name, "--ignore-not-found", "--wait=false")


def manifest(name: str, queue: str, *, cpu: str = "2", scheduler: str = "volcano", script: str = "sleep 600") -> str:
    return job(name, command=["sh", "-c", script], cpu=cpu, queue=queue, schedulerName=scheduler)


def as_account(cluster: Cluster, shell: Shell, namespace: str, name: str, file: Path) -> list[str]:
    """The flags that have a program be a new service account."""
    cluster.kubectl("create", "serviceaccount", name, "-n", namespace)
    token = cluster.kubectl("create", "token", name, "-n", namespace).strip()
    document = yaml.safe_load(Path(shell.environment["KUBECONFIG"]).read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    file.write_text(yaml.safe_dump(document))
    return ["--kubeconfig", str(file)]


def test_vsub_submits_a_job_that_vjobs_lists_and_vcancel_of_a_missing_job_exits_255(shell: Shell, namespace: str):
    assert shell.said("vsub", "-n", "quick", "-N", namespace, "-c", "echo done") == "run job quick successfully\n"
    assert [line.split()[0] for line in shell.said("vjobs", "-N", namespace).splitlines()] == ["Name", "quick"]
    assert {"Name", "default", "root"} <= {line.split()[0] for line in shell.said("vqueues").splitlines()}
    assert shell.said("vsuspend", "-n", "quick", "-N", namespace) == ""
    assert "not found" in shell.said("vcancel", "-n", "nothing", "-N", namespace, status=255)


def test_vcctl_queue_creates_updates_lists_closes_and_deletes_a_queue(shell: Shell, namespace: str):
    name = f"{namespace}-own"
    assert shell.said("vcctl", "queue", "create", "-n", name, "-w", "3") == ""
    wait_until(lambda: "Open" in shell.said("vcctl", "queue", "get", "-n", name), "the queue to open")
    assert shell.said("vcctl", "queue", "operate", "-n", name, "-a", "update", "-w", "7") == ""
    assert f"{name.ljust(25)}7" in shell.said("vcctl", "queue", "list")
    assert shell.said("vcctl", "queue", "operate", "-n", name, "-a", "close") == ""
    wait_until(lambda: "Closed" in shell.said("vcctl", "queue", "get", "-n", name), "the queue to close")
    assert shell.said("vcctl", "queue", "delete", "-n", name) == ""


def test_vcctl_fits_predicts_the_code_that_vcctl_waiting_later_shows(
    cluster: Cluster, shell: Shell, namespace: str, queue: str, tmp_path: Path
):
    cluster.create(manifest("first", queue, cpu="1"), namespace)
    wait_until(lambda: shell.phase("first") == "Running", "first to run")
    before = cluster.kubectl("get", "vcjob,podgroup,pod", "-n", namespace, "-o", "name")
    for name, cpu, want in (("small", "1", None), ("second", "2", "QueueFull"), ("huge", "4", "AboveQueueLimit")):
        file = tmp_path / f"{name}.yaml"
        file.write_text(manifest(name, queue, cpu=cpu))
        status = 3 if want == "AboveQueueLimit" else 0
        answer = json.loads(shell.said("vcctl", "fits", "-f", str(file), "-o", "json", status=status))
        assert answer["code"] == want
    assert cluster.kubectl("get", "vcjob,podgroup,pod", "-n", namespace, "-o", "name") == before
    for name in ("second", "huge"):
        cluster.kubectl("create", "-n", namespace, "-f", str(tmp_path / f"{name}.yaml"))

    def codes() -> dict[str, str]:
        rows = json.loads(shell.said("vcctl", "waiting", "-o", "json"))["items"]
        return {row["name"]: row["code"] for row in rows}

    wait_until(lambda: codes() == {"second": "QueueFull", "huge": "AboveQueueLimit"}, "the same codes")


def test_missing_scheduler_is_named_in_warnings_status_events_and_explain(cluster: Cluster, shell: Shell, namespace: str):
    absence = 'no scheduler named "volcan" is at work; schedulers at work: '
    for name, scheduler, warning in (
        ("typo", "volcan", f"Warning: spec.schedulerName: {absence}"),
        ("typo-in-task", "volcano", f"Warning: spec.tasks[0].template.spec.schedulerName: {absence}"),
        ("fine", "volcano", ""),
    ):
        document = yaml.safe_load(manifest(name, "default", cpu="1", scheduler=scheduler))
        if warning and scheduler == "volcano":
            document["spec"]["tasks"][0]["template"]["spec"]["schedulerName"] = "volcan"
        told = shell.run("kubectl", "create", "-f", "-", stdin=json.dumps(document)).stderr
        assert told.startswith(warning)
        assert bool(told) is bool(warning)
    wait_until(lambda: "typo-in-task" in shell.said("vcctl", "waiting"), "the Job to wait")
    for name in ("typo", "typo-in-task"):

        def message(name: str = name) -> str:
            state = cluster.get("vcjob", name, "-n", namespace).get("status", {}).get("state", {})
            return str(state.get("message", ""))

        wait_until(lambda: message().startswith(f"waits: NoScheduler: {absence}"), "the Job to say so")
        events = cluster.kubectl("get", "events", "-n", namespace, "--field-selector", f"involvedObject.name={name}")
        assert "NoScheduler" in events
    wait_until(lambda: shell.phase("fine") == "Running", "the other Job to run")


def test_vcctl_wait_fails_on_an_unreachable_phase_a_timeout_or_a_missing_job(cluster: Cluster, shell: Shell, namespace: str):
    cluster.create(manifest("done", "default", cpu="1", script="echo done"), namespace)
    cluster.create(manifest("long", "default", cpu="1"), namespace)
    shell.said("vcctl", "wait", "done", "--timeout", "60s")
    for arguments, status, message in (
        (("done", "--for", "Failed"), 1, "is Completed and will not be Failed"),
        (("long", "--timeout", "1s"), 124, "is not Completed after 1s"),
        (("gone",), 1, "does not exist, or was deleted"),
        (("done", "--for", "Happy"), 1, 'there is no phase "Happy"'),
    ):
        ended = shell.run("vcctl", "wait", *arguments)
        assert (ended.returncode, ended.stdout) == (status, "")
        assert message in ended.stderr


def test_vcctl_waiting_watch_continues_after_an_api_server_restart(
    cluster: Cluster, shell: Shell, namespace: str, queue: str, tmp_path: Path
):
    cluster.create(manifest("first", queue, cpu="4"), namespace)
    wait_until(lambda: "AboveQueueLimit" in shell.said("vcctl", "waiting"), "the limit to be named")
    seen = tmp_path / "seen"
    command = [str(PROGRAMS / "vcctl"), "waiting", "-w", "-o", "name"]
    with (
        seen.open("w") as output,
        subprocess.Popen(command, env=shell.environment, stdout=output, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            wait_until(lambda: "/first" in seen.read_text(), "the list")
            cluster.outage(1.0)
            cluster.create(manifest("second", queue, cpu="4"), namespace)
            wait_until(lambda: "/second" in seen.read_text(), "the list to follow")
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")


def test_vcctl_prints_one_forbidden_line_and_exits_1_without_permissions(
    cluster: Cluster, shell: Shell, namespace: str, tmp_path: Path
):
    as_nobody = as_account(cluster, shell, namespace, "nobody", tmp_path / "poor")
    for arguments in (("waiting",), ("explain", "x"), ("nodes",)):
        told = shell.run("vcctl", *arguments, *as_nobody)
        assert (told.returncode, told.stdout) == (1, "")
        (line,) = told.stderr.splitlines()
        assert "forbidden" in line


def test_kubectl_vc_plugin_help_lists_all_commands_of_vcctl(cluster: Cluster, shell: Shell):
    environment = {**shell.environment, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["kubectl", "vc", "--help"], env=environment, capture_output=True, text=True, check=True)
    assert "\n  waiting     list the waiting Jobs and their causes\n" in done.stdout
    names = [line.split()[0] for line in shell.said("vcctl", "commands").splitlines()]
    assert [name for name in names if f"\n  {name} " not in done.stdout] == []


def is_connected(pid: int) -> bool:
    """Whether a process has a connection over TCP."""
    files = subprocess.run(["ls", "-l", f"/proc/{pid}/fd"], capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(f"socket:[{row[9]}]" in files for row in rows if row[3] == "01")


def test_vcctl_ends_without_error_output_on_sigint_and_on_a_closed_pipe(cluster: Cluster, shell: Shell, namespace: str):
    cluster.create(manifest("long", "default", cpu="1"), namespace)
    command = [str(PROGRAMS / "vcctl"), "wait", "long"]
    with subprocess.Popen(command, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: is_connected(process.pid), "it to ask the API server")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "")
    piped = subprocess.run(
        ["sh", "-c", f"{PROGRAMS / 'vcctl'} nodes -o json | head -n 1"],
        env=shell.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (piped.stdout, piped.stderr) == ("{\n", "")


def test_vcctl_logs_follow_prints_each_line_once_over_container_and_api_server_restarts(
    cluster: Cluster, shell: Shell, namespace: str, tmp_path: Path
):
    script = "echo line-1; sleep 0.3; echo line-2; sleep 0.3; echo line-3; sleep 0.3; exit 1"
    document = yaml.safe_load(manifest("tries", "default", cpu="1", script=script))
    task = document["spec"]["tasks"][0]
    task["replicas"], document["spec"]["minAvailable"] = 2, 2
    task["template"]["spec"]["restartPolicy"] = "OnFailure"
    cluster.create(json.dumps(document), namespace)
    wait_until(lambda: shell.phase("tries") == "Running", "the Job to run")
    seen = tmp_path / "seen"
    command = [str(PROGRAMS / "vcctl"), "logs", "job/tries", "-f", "--timestamps"]

    def restarts() -> int:
        pod = cluster.get("pod", "tries-worker-0", "-n", namespace)
        return int((pod["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0))

    with (
        seen.open("w") as output,
        subprocess.Popen(command, env=shell.environment, stdout=output, stderr=subprocess.PIPE) as process,
    ):
        wait_until(lambda: restarts() >= 2, "the pods to be restarted", seconds=90)
        for prefix in ("[worker-0]", "[worker-1]"):
            wait_until(lambda prefix=prefix: seen.read_text().count(prefix) >= 9, f"the lines of three tries of {prefix}")
        cluster.outage(1.0)
        wait_until(lambda: shell.phase("tries") == "Running", "the server to be back")
        shell.said("vcctl", "job", "delete", "-N", "tries", "-n", namespace)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    lines = seen.read_text().splitlines()
    assert len(lines) == len(set(lines)), "a line stands twice"
    for prefix in ("[worker-0]", "[worker-1]"):
        words = [line.split()[2] for line in lines if line.startswith(prefix)]
        assert words[:9] == ["line-1", "line-2", "line-3"] * 3
