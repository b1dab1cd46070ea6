"""Kueue, as it is released, beside a control plane: its kinds, its webhooks, and its manager as a process."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from pyroclast_standalone.processes import free_port
from tests.control_plane import build
from tests.e2e.support.cluster import Cluster, wait_until

_GATES = "--feature-gates=VisibilityOnDemand=false"
_WITH_CERTIFICATES = """mount -t tmpfs tmpfs /etc
mkdir -p /etc/kueue/metrics
ln -s "$0" /etc/kueue/metrics/certs
exec "$@"
"""
"""Kueue reads the certificate of its metrics from this folder alone, which it gets in a view of the files of its own."""
_SERVED = ("kueue-x-k8s-io", "batch-v1-job")
"""Parts of the paths of the webhooks that are installed: those of its own kinds and of the framework that is switched on."""


@contextmanager
def kueue(cluster: Cluster, folder: Path, **configuration: Any) -> Iterator[int]:
    """Kueue's manager, which manages Jobs of `batch`, until the block ends. Its process id."""
    source = _source()
    crds = source / "config/components/crd/bases"
    cluster.kubectl("create", "-f", str(crds))
    cluster.kubectl("wait", "--for=condition=Established", "-f", str(crds), "--timeout=60s")
    cluster.make_namespace("kueue-system")
    webhook, health = free_port(), free_port()
    certificate = _certificate(folder)
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(certificate.parent)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        **configuration,
    }
    (folder / "kueue.yaml").write_text(json.dumps(settings))
    command = ["unshare", "--map-root-user", "--mount", "sh", "-ec", _WITH_CERTIFICATES, str(certificate.parent)]
    command += [str(build.program("kueue")), f"--config={folder / 'kueue.yaml'}", _GATES]
    assert cluster.server is not None
    plane = cluster.server.plane
    plane.certificates.client("kueue", "kueue", ["system:masters"])  # so that its requests can be told from those of others
    with process(folder, "kueue", *command, KUBECONFIG=str(plane.write_kubeconfig("kueue"))) as manager:

        def is_ready() -> bool:
            assert manager.poll() is None, (folder / "kueue.log").read_text()[-3000:]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=2) as answer:
                    return int(answer.status) == 200
            except OSError:
                return False

        wait_until(is_ready, "Kueue to be ready")
        hooks = yaml.safe_dump_all(_webhooks(source, webhook, certificate.read_bytes()))
        cluster.kubectl("create", "-f", "-", stdin=hooks)
        try:
            yield manager.pid
        finally:
            cluster.kubectl("delete", "-f", "-", stdin=hooks)


@contextmanager
def process(folder: Path, name: str, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program until the block ends; its log is in `folder`."""
    with (folder / f"{name}.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
        try:
            yield running
        finally:
            running.terminate()
            running.wait(30)


def _source() -> Path:
    version = (Path(build.__file__).parent / "tools/kueue/module.sum").read_text().split()
    told = subprocess.run(["go", "mod", "download", "-json", "@".join(version[:2])], capture_output=True, check=True)
    return Path(json.loads(told.stdout)["Dir"])


def _certificate(folder: Path) -> Path:
    """A certificate for loopback that signs itself, with its key beside it."""
    made = folder / "certificates" / "tls.crt"
    made.parent.mkdir()
    pair = ["-keyout", str(made.with_suffix(".key")), "-out", str(made)]
    names = ["-subj", "/CN=kueue", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *pair, *names]
    subprocess.run(command, check=True, capture_output=True)
    return made


def _webhooks(source: Path, port: int, certificate: bytes) -> Iterator[dict[str, Any]]:
    """Kueue's webhook configurations, which lead to a port of loopback instead of a Service."""
    for body in yaml.safe_load_all((source / "config/components/webhook/manifests.yaml").read_text()):
        body["metadata"]["name"] = f"kueue-{body['metadata']['name']}"
        served = [each for each in body["webhooks"] if any(part in each["clientConfig"]["service"]["path"] for part in _SERVED)]
        for each in served:
            url = f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"
            each["clientConfig"] = {"url": url, "caBundle": b64encode(certificate).decode()}
        yield {**body, "webhooks": served}
