"""The images: the Dockerfile is carried out stage by stage in fresh roots, and the chart's pod specs run what comes out.

Each as its pod says: command, arguments, environment, mounted files, ServiceAccount token, user, a root that is read-only.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast_standalone.processes import free_port
from tests.e2e.support.cluster import are_established, wait_until
from tests.e2e.support.containers import Container, kubelet_files, start
from tests.unit.chart import authorities, fresh_root, images, render
from tests.unit.chart.conftest import helm  # noqa: F401 - a fixture

TARGETS = {
    "pyroclast-admission": "admission",
    "pyroclast-board": "board",
    "pyroclast-controllers": "job-controller",
    "pyroclast-jobflow": "jobflow-controller",
    "pyroclast-recorder": "recorder",
    "pyroclast-scheduler": "scheduler",
}
ADDRESSES = {name: f"127.77.0.{number}" for number, name in enumerate(TARGETS, 1)}
HOST = "pyroclast-admission-service.pyroclast-system.svc"
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: NAME}
spec: {}
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, namespace: default}
spec:
  minAvailable: 2
  tasks: [{name: a, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}]
"""
INSIDE = "import importlib.util as i, json; print(json.dumps([n for n in %r if i.find_spec(n)]))"

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not fresh_root.is_possible(), reason="takes root and mount namespaces"),
]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[fresh_root.Builder]:
    folder = tmp_path_factory.mktemp("images")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder / "index"), "attrs"]
    if subprocess.run(fetch, capture_output=True, check=False).returncode:
        pytest.skip("no package index can be reached")
    yield fresh_root.Builder(folder, render.ROOT, {"PYTHON": "python:3.13-slim@sha256:" + "0" * 64})
    shutil.rmtree(folder, ignore_errors=True)


class Installation:
    """The chart's objects on a control plane that has nothing else, and its programs in containers."""

    def __init__(self, kubeconfig: Path, builder: fresh_root.Builder, helm: Path, folder: Path, *options: str) -> None:  # noqa: F811
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._builder, self.folder = builder, folder
        self.port = free_port()
        url = f"https://{ADDRESSES['pyroclast-admission']}:{self.port}"
        values = ("custom.bind_address=$(POD_IP)", f"basic.admission_port={self.port}", f"webhook.url={url}")
        options = (*(option for value in values for option in ("--set", value)), *options)
        self._text = render.render(helm, "--no-hooks", *options)
        self._templates = {
            each["metadata"]["name"]: each["spec"]["template"]
            for each in yaml.load_all(self._text, yaml.CSafeLoader)
            if each and each["kind"] == "Deployment"
        }

    def apply(self) -> None:
        self.kubectl("create", "namespace", render.NAMESPACE)
        known = set(self.kubectl("api-versions").split())  # no FlowSchemas on the embedded one
        documents = [
            each
            for each in yaml.load_all(self._text, yaml.CSafeLoader)
            if each and each["kind"] != "Deployment" and each["apiVersion"] in known
        ]
        documents.sort(key=lambda each: each["kind"] != "CustomResourceDefinition")
        self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(documents))
        wait_until(lambda: are_established(self.kubectl("get", "crd", "-o", "json")), "the kinds to be served")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["kubectl", *arguments], env=self._environment, input=stdin, capture_output=True, text=True, check=False, timeout=90
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[Container]:
        """The program of a Deployment, from its start until it has ended in good order."""
        folder = self.folder / name
        folder.mkdir()
        container = start(self._builder, TARGETS[name], self._templates[name], folder, ADDRESSES[name], self.kubectl)
        try:
            yield container
        finally:
            container.process.terminate()
            status = container.process.wait(40)
        assert status == 0, container.log.read_text()

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))


def is_well(container: Container) -> bool:
    assert container.process.poll() is None, container.log.read_text()
    return container.passes("readinessProbe") and container.passes("livenessProbe")


def test_each_image_contains_its_own_service_and_packages_and_no_pip(builder: fresh_root.Builder) -> None:
    apart = {"jinja2": {"board"}, "numpy": {"scheduler"}, "sqlalchemy": {"recorder"}, "asyncpg": {"recorder"}}
    services = {f"pyroclast_{target.replace('-', '_')}": {target} for target in TARGETS.values()}
    absent = {name: set() for name in ("pip", "hatchling", "pyroclast_standalone", "pytest", "kubernetes_asyncio")}
    places = {"aiohttp": set(TARGETS.values()), "pyroclast": set(TARGETS.values()), **apart, **services, **absent}
    for target in TARGETS.values():
        built = builder.build(target)
        asked = builder.run(built, ["python", "-c", INSIDE % list(places)])
        assert json.loads(asked.stdout) == [name for name, targets in places.items() if target in targets], asked.stderr
        outside = builder.run(built, ["/usr/local/bin/python", "-c", INSIDE % ["pip"]])
        assert json.loads(outside.stdout) == [], outside.stderr


def test_package_lists_of_the_images_match_the_lock_file(builder: fresh_root.Builder) -> None:
    lists = "import glob; print([open(each).read() for each in glob.glob('/opt/pyroclast/packages*.json')])"
    listed = {}
    for target in ("board", "recorder", "scheduler"):
        for text in ast.literal_eval(builder.run(builder.build(target), ["python", "-c", lists]).stdout):
            installed = json.loads(text)["installed"]
            listed |= {each["metadata"]["name"].lower().replace("_", "-"): each["metadata"]["version"] for each in installed}
    assert {listed.pop(name) for name in ("pyroclast", "pyroclast-api")} == {images.bake()["variable"]["VERSION"]["default"]}
    lock = "\n" + (render.ROOT / "requirements.lock").read_text().lower().replace("_", "-")
    assert {"numpy", "sqlalchemy", "jinja2", "aiohttp"} <= listed.keys()
    for name, version in listed.items():
        assert f"\n{name}=={version.lower()}" in lock


def test_container_runs_as_non_root_and_can_write_only_mounted_paths(builder: fresh_root.Builder) -> None:
    code = """
import os, errno
for place in ("/", "/opt/pyroclast", "/tmp"):
    try:
        open(place + "/x", "w").close()
        print(place, "written")
    except OSError as error:
        print(place, errno.errorcode[error.errno])
print(os.getuid(), os.getgid(), os.getgroups())
"""
    command = builder.command(builder.build("scheduler"), ["python", "-c", code], {"/tmp": None})
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["/ EROFS", "/opt/pyroclast EROFS", "/tmp written", "65532 65532 []"], done.stderr


def test_every_pod_of_the_chart_passes_its_probes_when_run_from_its_image(
    bare: Path,
    builder: fresh_root.Builder,
    helm: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    it = Installation(bare, builder, helm, tmp_path)
    it.apply()
    with contextlib.ExitStack() as stack:
        containers = {name: stack.enter_context(it.running(name)) for name in TARGETS}
        for name, container in containers.items():
            wait_until(partial(is_well, container), f"{name} to pass its probes", seconds=90)
        it.kubectl("create", "-f", "-", stdin=JOB.replace("NAME", "gang"))
        wait_until(lambda: it.get("podgroups")["items"], "the job controller to make a PodGroup")
        (group,) = it.get("podgroups")["items"]
        assert group["spec"]["minMember"] == 2
        assert {each["metadata"]["name"] for each in it.get("queues")["items"]} >= {"default", "root"}
        wait_until(lambda: it.get("vcjob", "gang").get("status", {}).get("conditions"), "the job to have a status")


def test_admission_serves_cert_manager_certificates_and_reloads_renewed_ones(
    bare: Path,
    builder: fresh_root.Builder,
    helm: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A Secret as cert-manager writes it from certs/cert-manager.yaml: renewed, then signed by another CA, without a restart."""
    values = str(render.ROOT / "certs" / "values-cert-manager.yaml")
    it = Installation(bare, builder, helm, tmp_path, "--values", values)
    it.apply()
    requests = list(yaml.safe_load_all((render.ROOT / "certs" / "cert-manager.yaml").read_text()))
    (asked,) = (each["spec"] for each in requests if each["metadata"]["name"] == "pyroclast-admission")
    asked["ipAddresses"] = [ADDRESSES["pyroclast-admission"]]  # where `webhook.url` has the API server call
    first = authorities.certificate_of(requests, "pyroclast-admission", now=datetime.now(UTC) - timedelta(days=60))
    it.kubectl("create", "-f", "-", stdin=json.dumps(secret(first)))
    with it.running("pyroclast-admission") as container:
        wait_until(lambda: is_well(container), "admission to pass its probes", seconds=90)
        assert served(it.port, first["ca.crt"]) == serial(first)
        wait_until(lambda: bundles(it) == {first["ca.crt"]}, "the webhook configurations to name the authority")
        it.kubectl("create", "-f", "-", stdin=QUEUE.replace("NAME", "first"))
        assert it.get("queue", "first")["spec"]["weight"] == 1, "defaults come from the webhook"

        renewed = authorities.certificate_of(requests, "pyroclast-admission", now=datetime.now(UTC), authority=first)
        assert renewed["ca.crt"] == first["ca.crt"]
        kubelet_files(it.folder / "pyroclast-admission" / "certificates", renewed)
        wait_until(lambda: served(it.port, renewed["ca.crt"]) == serial(renewed), "the renewed certificate to be served")

        other = authorities.certificate_of(requests, "pyroclast-admission", now=datetime.now(UTC))
        assert other["ca.crt"] != first["ca.crt"]
        kubelet_files(it.folder / "pyroclast-admission" / "certificates", other)
        wait_until(lambda: bundles(it) == {other["ca.crt"]}, "the webhook configurations to name the other authority")
        wait_until(lambda: served(it.port, other["ca.crt"]) == serial(other), "its certificate to be served")
        it.kubectl("create", "-f", "-", stdin=QUEUE.replace("NAME", "second"))

        own = authorities.by_own_ca(tmp_path, other["ca.crt"])
        kubelet_files(it.folder / "pyroclast-admission" / "certificates", own)
        wait_until(lambda: served(it.port, own["ca.crt"]) == serial(own), "the certificate of an own CA to be served")
        assert container.process.poll() is None


def secret(files: dict[str, bytes]) -> dict[str, object]:
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    metadata = {"name": "volcano-admission-secret", "namespace": render.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}


def serial(files: dict[str, bytes]) -> int:
    return authorities.read(files["tls.crt"]).serial_number


def served(port: int, authority: bytes) -> int | None:
    """The serial number of the certificate served for the Service's name; None where the authority does not vouch for it."""
    context = ssl.create_default_context(cadata=authority.decode())
    try:
        with (
            contextlib.closing(socket.create_connection((ADDRESSES["pyroclast-admission"], port), 5)) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as connection,
        ):
            return authorities.read_der(connection.getpeercert(binary_form=True) or b"").serial_number
    except ssl.SSLCertVerificationError:
        return None


def bundles(it: Installation) -> set[bytes]:
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    return {
        base64.b64decode(hook["clientConfig"].get("caBundle", "")) for each in it.get(kinds)["items"] for hook in each["webhooks"]
    }
