"""The command `pyroclast` as a user runs it: what goes wrong is one clear line and a status other than 0."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flows.test_flows import entry, flow, template
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, started, wait_until

INVALID = "examples/invalid/queue-missing.yaml"


def pyroclast(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyroclast_standalone", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["up", "--port", "99999"], "argument --port: '99999' is no port; give a number from 0 to 65535", id="port"),
        pytest.param(["up", "--nodes", "many"], "argument --nodes: 'many' is no number of nodes; give 0 or more", id="nodes"),
        pytest.param(["up", "--kubeconfig", "none"], "none: no such file; give the path of a kubeconfig", id="kubeconfig"),
        pytest.param(["run", "none.yaml"], "none.yaml: No such file or directory; give the path of a manifest", id="manifest"),
        pytest.param(["run"], "the following arguments are required: MANIFEST", id="no-manifest"),
        pytest.param(["fly"], "invalid choice: 'fly'", id="verb"),
        pytest.param(["down", "--data-dir", "none"], "--data-dir none: no control plane runs here", id="down"),
    ],
)
def test_invalid_arguments_exit_nonzero_with_a_one_line_error(arguments: list[str], want: str) -> None:
    done = pyroclast(*arguments)
    assert done.returncode != 0
    assert want in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_up_refuses_a_port_in_use_and_creates_no_files(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = pyroclast("up", "--data-dir", str(tmp_path / "data"), "--port", str(port))
        detached = pyroclast("up", "--detach", "--data-dir", str(tmp_path / "data"), "--port", str(port))
    for each in (done, detached):
        assert each.returncode == 1
        assert f"--port {port}: something listens there already; give a free port" in each.stderr
        assert each.stderr.count("\n") == 1, each.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["run", "up"])
def test_command_exits_1_and_creates_no_data_directory_when_no_api_server_answers(tmp_path: Path, verb: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = f"https://127.0.0.1:{listener.getsockname()[1]}"
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": {"server": server}}]}
    config |= {"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    manifests = ["examples/gang.yaml"] if verb == "run" else []
    home = tmp_path / "home"
    done = pyroclast(verb, "--kubeconfig", str(kubeconfig), *manifests, XDG_DATA_HOME=str(home))
    assert done.returncode == 1
    want = f"--kubeconfig {kubeconfig}: no API server answers at {server}; start it, or give another file"
    assert done.stderr == f"pyroclast: {want}\n"
    assert not home.exists()


def test_up_fails_and_names_the_damaged_database_file(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "state.db").write_bytes(b"this is no database" * 100)
    done = pyroclast("up", "--data-dir", str(tmp_path / "data"))
    assert done.returncode != 0
    assert re.search(r"apiserver ended with status \d+: .*state.db: file is not a database; restore it", done.stderr), done.stderr


def test_run_follows_a_job_to_completed_and_replaces_a_completed_job_when_repeated(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    manifest = tmp_path / "gang.yaml"
    manifest.write_text(Path("examples/gang.yaml").read_text().replace("name: gang", f"name: gang\n  namespace: {namespace}", 1))
    done = pyroclast("run", "--kubeconfig", str(cluster.kubeconfig), str(manifest))
    assert done.returncode == 0, done.stdout + done.stderr
    phases = re.findall(rf"{namespace}/gang  (\w+)", done.stdout)
    assert [phase for phase in dict.fromkeys(phases) if phase in ("Running", "Completed")] == ["Running", "Completed"]
    again = pyroclast("run", "--kubeconfig", str(cluster.kubeconfig), str(manifest))
    assert f"job {namespace}/gang is Completed from an earlier run: replacing it" in again.stdout
    assert again.returncode == 0, again.stdout + again.stderr


def test_run_reports_the_server_refusal_and_leaves_no_created_objects(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    good = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: first, namespace: {namespace}}}\n---\n"
    bad = Path(INVALID).read_text().replace("metadata:", f"metadata:\n  namespace: {namespace}", 1)
    manifest = tmp_path / "both.yaml"
    manifest.write_text(good + bad)
    done = pyroclast("run", "--kubeconfig", str(cluster.kubeconfig), str(manifest))
    assert done.returncode == 1
    assert "unable to find job queue" in done.stderr
    assert "first" not in cluster.kubectl("get", "cm", "-n", namespace, "-o", "name")


def test_run_refuses_to_replace_a_running_job_and_creates_nothing(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    running = job("busy", command=["sleep", "600"], replicas=1, min_available=1)
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=running)
    config_map = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: first, namespace: {namespace}}}\n---\n"
    manifest = tmp_path / "both.yaml"
    manifest.write_text(config_map + running.replace('"name": "busy"', f'"name": "busy", "namespace": "{namespace}"', 1))
    uid = cluster.get("vcjob", "busy", "-n", namespace)["metadata"]["uid"]
    done = pyroclast("run", "--kubeconfig", str(cluster.kubeconfig), str(manifest))
    assert done.returncode == 1
    assert re.search(rf"job {namespace}/busy exists and is \w+: wait for its end, delete it, or choose", done.stderr), done.stderr
    assert cluster.get("vcjob", "busy", "-n", namespace)["metadata"]["uid"] == uid
    assert "first" not in cluster.kubectl("get", "cm", "-n", namespace, "-o", "name")


def test_run_exits_1_when_the_job_is_terminated(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    text = Path("examples/gang.yaml").read_text().replace("name: gang", f"name: gang\n  namespace: {namespace}", 1)
    text = text.replace("action: RestartJob", "action: TerminateJob").replace("sleep 2", "exit 7")
    manifest = tmp_path / "failing.yaml"
    manifest.write_text(text)
    done = pyroclast("run", "--kubeconfig", str(cluster.kubeconfig), str(manifest))
    assert done.returncode == 1, done.stdout
    assert "Terminated" in done.stdout


def follow(cluster: Cluster, namespace: str, tmp_path: Path, *objects: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """`pyroclast run` with all `objects` in one file."""
    placed = [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in objects]
    manifest = tmp_path / "objects.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": placed}))
    return pyroclast("run", "--kubeconfig", str(cluster.kubeconfig), str(manifest))


def test_run_prints_a_jobflow_as_a_tree_and_replaces_a_succeeded_jobflow_when_repeated(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    objects = [template("a"), template("b"), flow(entry("a"), entry("b", "a", **{"for": {"count": 2}}))]
    done = follow(cluster, namespace, tmp_path, *objects)
    assert done.returncode == 0, done.stdout + done.stderr
    end = done.stdout[done.stdout.rindex(f"{namespace}/f  ") :]
    assert re.match(rf"{namespace}/f  Succeed +2 of 2 entries completed\n", end)
    branches = re.findall(r"^ {10}(.*?) {2,}Completed", end, re.MULTILINE)
    assert branches == ["└─ a", "   └─ b", "      ├─ round 0", "      └─ round 1"]
    again = follow(cluster, namespace, tmp_path, *objects)
    assert "jobtemplates.flow.volcano.sh/a unchanged" in again.stdout
    assert f"jobflow {namespace}/f is Succeed from an earlier run: replacing it" in again.stdout
    assert again.returncode == 0, again.stdout + again.stderr


def test_run_exits_1_and_prints_failed_and_skipped_entries_when_a_jobflow_fails(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    done = follow(cluster, namespace, tmp_path, template("a", "exit 3"), template("b"), flow(entry("a"), entry("b", "a")))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"{namespace}/f  Failed +0 of 2 entries completed, 1 skipped\n", done.stdout)
    assert re.search(r"└─ a +Failed ", done.stdout)


def test_run_exits_1_and_prints_the_exit_code_when_a_pod_fails(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    spec = {"schedulerName": "volcano", **template("t", "exit 4")["spec"]["tasks"][0]["template"]["spec"]}
    done = follow(cluster, namespace, tmp_path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"{namespace}/p  Failed +container c ended with exit code 4\n", done.stdout)


def test_run_refuses_unknown_fields_and_deletes_objects_created_before(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    typo = {**template("b"), "specs": {}}
    done = follow(cluster, namespace, tmp_path, template("a", "sleep 600"), flow(entry("a")), typo)
    assert done.returncode == 1
    assert 'strict decoding error: unknown field "specs" (what was created before it was deleted again: 2)' in done.stderr
    wait_until(lambda: not cluster.kubectl("get", "jf,jt,vcjob", "-n", namespace, "-o", "name"), "all of it to go")


def test_run_prints_warnings_and_that_a_cron_job_has_no_end_to_follow(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    spec = {**template("t")["spec"], "schedulerName": "nobody"}
    cron = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    made = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": cron}
    done = follow(cluster, namespace, tmp_path, made)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'Warning: spec.jobTemplate.spec.schedulerName: no scheduler named "nobody" is at work' in done.stdout
    assert "cronjobs.batch.volcano.sh/c makes Jobs until it is deleted: it has no end that could be followed" in done.stdout


def test_crds_can_be_printed() -> None:
    done = pyroclast("crds")
    assert done.returncode == 0
    assert "name: jobs.batch.volcano.sh" in done.stdout


@pytest.mark.timeout(180)
def test_down_removes_all_installed_objects_from_an_existing_cluster(bare: Path, tmp_path: Path, control_plane: str) -> None:
    """An API server that is not ours to keep: services come, work, and leave nothing behind."""
    data = ["--kubeconfig", str(bare), "--data-dir", str(tmp_path / "services")]
    with started(control_plane, bare, tmp_path / "none", [*data, "--nodes", "2"]) as cluster:
        assert cluster.lines[-1] == f"ready KUBECONFIG={bare}\n"
        assert "apiserver" not in cluster.pids
        cluster.kubectl("create", "-f", "examples/gang.yaml")
        cluster.kubectl("wait", "--for=jsonpath={.status.state.phase}=Running", "vcjob/gang", "--timeout=60s")
    assert pyroclast("down", *data).returncode == 0
    kinds = "crd,nodes,namespaces,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"
    left = cluster.kubectl("get", kinds, "-o", "name").split()
    assert not [name for name in left if "volcano" in name or "pyroclast" in name or name.startswith("node/")]
    wait_until(lambda: not cluster.kubectl("get", "pods", "-A", "-o", "name"), "the pods to go")
