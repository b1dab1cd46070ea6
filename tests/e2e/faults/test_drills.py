"""Drills: each fault is named within a minute by `vcctl doctor`, by the strip of the board and by an alert.

`pytest -s` prints for each fault the seconds until it was named, and the sentence.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pyroclast.api.keys import SERVICE_PROBLEM, SERVICE_VERSION
from pyroclast.views.health import CHECKS
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.board import url
from tests.e2e.support.cluster import Cluster, wait_until
from tests.unit.chart.health_alerts import alert_rules

NAMED_SECONDS = 60.0
pytestmark = pytest.mark.timeout(600)


@contextlib.contextmanager
def paused(cluster: Cluster, service: str) -> Iterator[None]:
    cluster.pause(service)
    try:
        yield
    finally:
        cluster.kill(service)


@contextlib.contextmanager
def command_for_nobody(cluster: Cluster, namespace: str, _: Path) -> Iterator[None]:
    cluster.create(job("held", command=["sleep", "600"]), namespace)
    uid = cluster.get("vcjob", "held", "-n", namespace)["metadata"]["uid"]
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "held", "uid": uid}
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "drill"},
        "action": "AbortJob",
        "target": target,
    }
    with paused(cluster, "job-controller"):
        cluster.create(json.dumps(body), namespace)
        yield


@contextlib.contextmanager
def refused_configuration(cluster: Cluster, _: str, __: Path) -> Iterator[None]:
    file = cluster.data / "scheduler.conf"
    before = file.read_text()
    file.write_text("actions: enqueue\ntiers:\n- plugins:\n  - name: [gang\n")
    try:
        yield
    finally:
        file.write_text(before)


@contextlib.contextmanager
def locked_database(cluster: Cluster, namespace: str, _: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(cluster.data / "history.db", timeout=30)) as database:
        database.execute("BEGIN EXCLUSIVE")
        cluster.create(job("unwritten", command=["sleep", "1"]), namespace)
        yield
        database.rollback()


@contextlib.contextmanager
def lost_node(cluster: Cluster, namespace: str, _: Path) -> Iterator[None]:
    cluster.create(job("there", command=["sleep", "600"]), namespace)
    wait_until(
        lambda: [each for each in cluster.get("pod", "-n", namespace)["items"] if each["status"].get("phase") == "Running"],
        "a pod to run",
    )
    pod = cluster.get("pod", "-n", namespace)["items"][0]
    node = pod["spec"]["nodeName"]
    cluster.kubectl("annotate", "node", node, "nodes.pyroclast.dev/state=not-ready")
    try:
        yield
    finally:
        cluster.kubectl("annotate", "node", node, "nodes.pyroclast.dev/state-")


@contextlib.contextmanager
def many_evictions(cluster: Cluster, namespace: str, _: Path) -> Iterator[None]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": "p"}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "drill"},
        "involvedObject": about,
        "reason": "Evict",
        "type": "Warning",
    }
    cluster.create(
        json.dumps({**event, "message": "drill", "count": 100, "firstTimestamp": now, "lastTimestamp": now}), namespace
    )
    yield
    cluster.kubectl("delete", "event", "drill", "-n", namespace)


@contextlib.contextmanager
def old_certificate(cluster: Cluster, _: str, folder: Path) -> Iterator[None]:
    """A webhook of ours whose certificate expires in three days."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - timedelta(1), now + timedelta(3)
    )
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(secret + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    import base64
    import socketserver

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def get_request(self) -> tuple[ssl.SSLSocket, object]:
            sock, address = self.socket.accept()
            return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.rfile.readline()

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        of = {"url": f"https://localhost:{server.server_address[1]}/x", "caBundle": base64.b64encode(pem).decode()}
        rule = {"apiGroups": ["drill"], "apiVersions": ["v1"], "resources": ["drills"], "operations": ["CREATE"]}
        webhook = {
            "name": "drill.example.org",
            "clientConfig": of,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
        }
        metadata = {"name": "drill", "labels": {"app.kubernetes.io/name": "pyroclast"}}
        cluster.create(
            json.dumps(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "ValidatingWebhookConfiguration",
                    "metadata": metadata,
                    "webhooks": [webhook],
                }
            )
        )
        yield
        cluster.kubectl("delete", "validatingwebhookconfiguration", "drill")
        server.shutdown()


@contextlib.contextmanager
def other_version(cluster: Cluster, _: str, __: Path) -> Iterator[None]:
    annotations = {SERVICE_VERSION: "0.0.9", SERVICE_PROBLEM: ""}
    renewed = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "drill", "annotations": annotations}}
    cluster.create(json.dumps({**lease, "spec": {"renewTime": renewed, "holderIdentity": "a"}}))
    yield
    cluster.kubectl("delete", "lease", "drill")


@contextlib.contextmanager
def second_owner(cluster: Cluster, namespace: str, _: Path) -> Iterator[None]:
    labels = {"app": "volcano-admission"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "volcano-admission", "labels": labels}
    cluster.create(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}), namespace)
    yield
    cluster.kubectl("delete", "deployment", "volcano-admission", "-n", namespace)


@contextlib.contextmanager
def held_api_server(cluster: Cluster, _: str, __: Path) -> Iterator[None]:
    if cluster.server is not None:
        pytest.skip("the drill pauses the embedded API server")
    pid = cluster.pids["apiserver"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


Fault = Callable[[Cluster, str, Path], contextlib.AbstractContextManager[None]]
DRILLS: dict[str, tuple[Fault, str]] = {
    "service-silent": (lambda cluster, _, __: paused(cluster, "scheduler"), "volcano is silent since"),
    "configuration-refused": (refused_configuration, "line 4: not YAML"),
    "recorder-cannot-write": (locked_database, "the database takes no rows"),
    "nodes-away": (lost_node, "1 of 8 nodes is away with 1 Jobs"),
    "evictions": (many_evictions, "10.0 evictions per minute, 100 in 10 minutes"),
    "certificates": (old_certificate, "expires in 2d"),
    "webhooks": (lambda cluster, _, __: paused(cluster, "admission"), "answer"),
    "versions-differ": (other_version, "2 versions are at work"),
    "two-owners": (second_owner, "1 programs of Volcano work beside ours"),
    "commands-wait": (command_for_nobody, "1 Commands are not carried out for over 30 s"),
    "api-server-slow": (held_api_server, "the API server gave no list of Leases in 3.0 s"),
}
"""The last one holds up everything else."""


def doctor(cluster: Cluster) -> tuple[int, dict[str, str]]:
    """The exit status of `vcctl doctor`, and the sentences of what is wrong by check."""
    command = [sys.executable, "-m", "pyroclast_cli", "doctor", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, {each["check"]: each["text"] for each in json.loads(done.stdout)["items"] if each["state"] == "wrong"}


def read(address: str) -> str:
    """The first page of the board; empty while it does not answer."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def fires(series: str, check: str, folder: Path) -> bool:
    """Whether the alert of the chart fires at once by the series that the board shows, by Prometheus' own tool."""
    ours = 'namespace="a", service="pyroclast-board-service"'
    text = (
        "".join(alert_rules().splitlines(keepends=True)[2:])
        .replace("{{- $ours -}}", ours)
        .replace("{{ .Values.monitoring.runbooks }}", "x")
    )
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": yaml.safe_load(text)}]}))
    alert = next(each.alert for each in CHECKS if each.name == check)
    expected = {
        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": "1m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }
    given = [{"series": series.replace("{", "{" + ours + ","), "values": "1x2"}]
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "30s",
        "tests": [{"interval": "30s", "input_series": given, "promql_expr_test": [expected]}],
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(test))
    return (
        subprocess.run(["promtool", "test", "rules", "tests.yaml"], cwd=folder, capture_output=True, check=False).returncode == 0
    )


def test_every_check_has_a_drill():
    assert DRILLS.keys() == {check.name for check in CHECKS}


@pytest.mark.parametrize("check", DRILLS)
def test_fault_is_named_within_a_minute_in_all_three_places(cluster, namespace, tmp_path, check):
    fault, sentence = DRILLS[check]
    address = url(cluster)  # before the API server may be silent
    series = f'pyroclast_problem{{check="{check}"}}'
    with fault(cluster, namespace, tmp_path):
        began, named, told = time.monotonic(), {}, ""
        places = {
            "doctor": lambda: sentence in doctor(cluster)[1].get(check, ""),
            "strip": lambda: f"<b>{check}</b>: " in (page := read(address)) and sentence in page,
            "alert": lambda: f"{series} 1" in cluster.metrics("board") and fires(series, check, tmp_path),
        }
        while len(named) < len(places) and time.monotonic() - began < NAMED_SECONDS:
            named |= {place: time.monotonic() - began for place, holds in places.items() if place not in named and holds()}
            time.sleep(0.2)
        status, wrong = doctor(cluster)
        told = wrong.get(check, "")
    print(f"{check}: " + ", ".join(f"{place} {seconds:.0f} s" for place, seconds in named.items()) + f": {told}")
    assert named.keys() == places.keys(), wrong
    assert status == 1
    wait_until(lambda: check not in doctor(cluster)[1], f"{check} to be well again", seconds=90)
