"""A whole control plane to install the chart on with helm: kube-scheduler places our pods, nodes run them as processes.

Each pod has a loopback address of its own, on which its program listens; the API server calls webhooks by `webhook.url`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.support.cluster import wait_until
from tests.e2e.support.endpoints import webhook_endpoints
from tests.e2e.support.leftovers import Thing, everything, left_behind
from tests.e2e.support.previous import ROOT, python_path
from tests.e2e.support.server import RealServer, real_server
from tests.unit.chart.render import CHART, NAMESPACE, RELEASE

LABELS = {"pool": "system", "disk": "fast"}
"""Labels of the nodes, for values that ask for some."""
NODES = ("node-0", "node-1")
OTHER_KINDS = Path(__file__).with_name("other-kinds.yaml")
HELM_SECONDS = "600s"
GONE_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Whole:
    """A control plane with nodes; `webhook_port` leads to the admission pods that are ready."""

    server: RealServer
    webhook_port: int

    def everything(self) -> frozenset[Thing]:
        """All objects that there are."""
        return everything(self.server.kubeconfig)

    def await_as_before(self, before: frozenset[Thing], *, besides: str = "") -> None:
        """Wait until nothing is there besides what was `before`, our kinds and their objects, and the namespace `besides`."""
        left: list[Thing] = []

        def is_as_before() -> bool:
            left[:] = [each for each in left_behind(before, self.everything()) if not besides or each.namespace != besides]
            return not left

        try:
            wait_until(is_as_before, "all to be gone", seconds=GONE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {left}") from None


@contextlib.contextmanager
def whole_plane(folder: Path) -> Iterator[Whole]:
    """One in `folder`, until the end."""
    with real_server(folder / "real", scheduler=True) as server, _nodes(server.kubeconfig, folder):
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
        for command in (("create", "namespace", NAMESPACE), ("create", "-f", str(OTHER_KINDS))):
            subprocess.run(["kubectl", *command], env=environment, check=True, capture_output=True)
        endpoints = webhook_endpoints(server.kubeconfig)
        port = server.do(endpoints.__aenter__())
        whole = Whole(server, port)
        begun = {Thing("serviceaccounts", NAMESPACE, "default"), Thing("configmaps", NAMESPACE, "kube-root-ca.crt")}
        begun |= {Thing("leases.coordination.k8s.io", "kube-node-lease", name) for name in NODES}
        try:
            wait_until(lambda: begun <= whole.everything(), "the namespace to be complete")
            yield whole
        finally:
            server.do(endpoints.__aexit__(None, None, None))


@contextlib.contextmanager
def _nodes(kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Two nodes that run pods as processes of this machine; their data is not in /tmp, over which our pods mount a volume."""
    command = [sys.executable, "-m", "pyroclast_standalone.nodes", "--kubeconfig", str(kubeconfig), "--nodes", str(len(NODES))]
    command += [f"--label={name}={value}" for name, value in LABELS.items()]
    # a network of its own: pods of other nodes on this machine listen on their addresses too
    command += ["--pod-network", f"127.{128 + secrets.randbelow(64)}.{secrets.randbelow(256)}.0/24"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as data, (folder / "nodes.log").open("w") as log:
        process = subprocess.Popen([*command, "--mode", "process", "--data-dir", data], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


class Release:
    """helm and kubectl against one control plane: the chart with some values, and what these need to run there.

    Chart and programs are those of `tree`, which may be set to another between two calls.
    """

    def __init__(self, whole: Whole, helm: Path, folder: Path, values: Mapping[str, Any]) -> None:
        self.tree, self.server = ROOT, whole.server
        self._environment = {**os.environ, "KUBECONFIG": str(whole.server.kubeconfig)}
        self._helm = str(helm)
        self._file = folder / "values.yaml"
        self._values, self._webhook_port = values, whole.webhook_port

    def run(self, *command: str, stdin: str | None = None) -> str:
        """What a command prints, which must end well."""
        done = self._run(command, stdin)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, *command: str, stdin: str | None = None) -> str:
        """What a command says on standard error, which must end badly."""
        done = self._run(command, stdin)
        assert done.returncode != 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stderr

    def helm(self, *command: str) -> str:
        """What helm prints."""
        return self.run(self._helm, *command, "--namespace", NAMESPACE)

    def release(self, verb: str, *options: str) -> str:
        """`helm install` or `helm upgrade` of the chart, until all is ready."""
        self._file.write_text(yaml.safe_dump(_merged(self._values, _needed(self._webhook_port, self.tree))))
        chart = str(self.tree / CHART.relative_to(ROOT))
        return self.helm(verb, RELEASE, chart, "--wait", "--timeout", HELM_SECONDS, "--values", str(self._file), *options)

    @contextlib.contextmanager
    def gone_at_last(self) -> Iterator[None]:
        """Whatever happens: the next test finds no release of ours."""
        try:
            yield
        finally:
            self.helm("uninstall", RELEASE, "--ignore-not-found", "--wait", "--timeout", "120s")

    def get(self, *arguments: str) -> dict[str, Any]:
        """The object or list that kubectl finds."""
        found: dict[str, Any] = json.loads(self.run("kubectl", "get", *arguments, "-o", "json"))
        return found

    def phase(self, name: str) -> str:
        """The phase of a Job."""
        return str(self.get("vcjob", name).get("status", {}).get("state", {}).get("phase", ""))

    def await_phase(self, name: str, phase: str) -> None:
        """Wait for a Job to be in this phase."""
        wait_until(lambda: self.phase(name) == phase, f"{name} to be {phase}", seconds=90)

    def phases(self, names: Iterable[str]) -> dict[str, str]:
        """The phases of Jobs."""
        return {name: self.phase(name) for name in names}

    def pods(self, jobs: Iterable[str] = ()) -> dict[str, tuple[str, int]]:
        """UID and restarts of the pods of these Jobs, or of all."""
        found = self.get("pods", "-n", "default", "-l", "volcano.sh/job-name")["items"]
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(container["restartCount"] for container in pod["status"].get("containerStatuses", [])),
            )
            for pod in found
            if not jobs or pod["metadata"]["labels"]["volcano.sh/job-name"] in set(jobs)
        }

    def _run(self, command: tuple[str, ...], stdin: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, text=True, timeout=660, check=False
        )


def _needed(webhook_port: int, tree: Path) -> dict[str, Any]:
    """Values without which no program of `tree` runs as a process of this machine."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": python_path(tree)}
    return {
        "webhook": {"url": f"https://127.0.0.1:{webhook_port}"},
        "custom": {
            "bind_address": "$(POD_IP)",
            "default_env": [{"name": name, "value": value} for name, value in environment.items()],
        },
    }


def _merged(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both: mappings and lists are joined, what is in both otherwise comes from `more`."""
    found = dict(values)
    for key, value in more.items():
        own = found.get(key)
        if isinstance(value, dict):
            found[key] = _merged(own or {}, value)
        elif isinstance(value, list):
            found[key] = [*(own or ()), *value]
        else:
            found[key] = value
    return found
