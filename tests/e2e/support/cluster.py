"""A running control plane with our services, as the end-to-end tests drive it: kubectl, the audit log, and process ids."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.real import PLAIN, Flavour
from tests.e2e.support.audit import Audit
from tests.e2e.support.reading import Reader, ReadError
from tests.e2e.support.server import RealServer, real_server

START_SECONDS = 120.0
STOP_SECONDS = 60.0
RESTART_BACKOFF = "2s"  # of containers that fail: a fifth of what kubelets wait
LAST_LINES = 60
ADMISSION_SECONDS = 30.0
PR_SET_PDEATHSIG = 1
FLAGS: list[str] = []
"""Further flags of `pyroclast up` in this run of the tests."""
_PID = re.compile(r"^(\S+) pid=(\d+)$")


class KubectlError(AssertionError):
    """kubectl ended with a status other than 0; `stderr` is what it said."""

    def __init__(self, arguments: Iterable[str], status: int, stdout: str, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: status {status}\n{stdout}{stderr}")
        self.status, self.stdout, self.stderr = status, stdout, stderr


def places_before_pods() -> bool:
    """Whether gangs are placed before their pods exist in this run of the tests."""
    return "--no-place-before-pods" not in FLAGS


def kubectl_is_there() -> bool:
    return shutil.which("kubectl") is not None


@dataclass(slots=True)
class Cluster:
    """`control_plane` is "embedded" or "real"; `pids` follow restarts of the services."""

    control_plane: str
    kubeconfig: Path
    audit_log: Path
    data: Path
    process: subprocess.Popen[str]
    pids: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    server: RealServer | None = None
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(self.kubeconfig)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 90.0) -> str:
        """What kubectl prints.

        Raises:
            KubectlError: it ended with another status than 0.
        """
        done = subprocess.run(
            ["kubectl", *arguments],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def refused(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl says on standard error where it must fail."""
        try:
            output = self.kubectl(*arguments, stdin=stdin)
        except KubectlError as error:
            return error.stderr
        raise AssertionError(f"kubectl {' '.join(arguments)} should have been refused, but: {output}")

    def get(self, *arguments: str) -> dict[str, Any]:
        """The object or list that `kubectl get ARGUMENTS -o json` prints, without the start of a process.

        Raises:
            KubectlError: what is asked for is not there, or the server does not answer.
        """
        try:
            found = self.reader.get(*arguments)
        except ReadError as error:
            raise KubectlError(("get", *arguments), 1, "", f"{error}\n") from error
        return json.loads(self.kubectl("get", *arguments, "-o", "json")) if found is None else found

    def create(self, manifests: str, namespace: str = "default") -> list[dict[str, Any]]:
        """What `kubectl create -n NAMESPACE -f -` makes of manifests in YAML or JSON, without the start of a process.

        Raises:
            KubectlError: one of them is refused, or the server does not answer.
        """
        bodies = [each for each in yaml.load_all(manifests, yaml.CSafeLoader) if each]
        bodies = [item for body in bodies for item in (body["items"] if body["kind"] == "List" else [body])]
        names = {each["metadata"].get("name", "") for each in bodies}
        return [self._create(body, namespace, names) for body in bodies]

    def _create(self, body: dict[str, Any], namespace: str, beside: set[str]) -> dict[str, Any]:
        """Create one object; admission of the API server hears of a PriorityClass made `beside` it a moment later."""
        deadline = time.monotonic() + ADMISSION_SECONDS
        while True:
            try:
                return self.reader.create(body, namespace)
            except ReadError as error:
                _, _, name = str(error).partition("no PriorityClass with name ")
                if name.split(" ")[0] not in beside or time.monotonic() > deadline:
                    raise KubectlError(("create", "-n", namespace, "-f", "-"), 1, "", f"{error}\n") from error
            time.sleep(0.1)

    def make_namespace(self, name: str, **metadata: Any) -> None:
        """Make a namespace, in which pods can be made at once."""
        self.create(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}))
        wait_until(lambda: self.get("serviceaccount", "-n", name)["items"], f"the account that the pods of {name} have")

    def delete_namespace(self, name: str) -> None:
        """Ask for its deletion as soon as the API server answers, which a test may have killed a moment ago."""

        def is_asked_for() -> bool:
            try:
                self.reader.delete("namespace", name)
            except ReadError as error:
                return "(NotFound)" in str(error)
            return True

        wait_until(is_asked_for, f"the API server to take the deletion of namespace {name}")

    @property
    def audit(self) -> Audit:
        """What its API server logged; the embedded one serves nobody before it knows all roles."""
        return Audit(self.audit_log, self.server.plane.apiserver.starts if self.server else [])

    def metrics(self, service: str) -> str:
        """What the service shows at /metrics, once it listens: it may have been started again a moment ago."""
        address = json.loads((self.data / "addresses.json").read_text())[service]
        wait_until(lambda: listens(address), f"{service} to listen")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def outage(self, seconds: float) -> float:
        """Kill the API server and bring it back: the real one after `seconds`, the embedded one when its supervisor does.

        How many seconds it was away.
        """
        began = time.monotonic()
        if self.server is None:
            self.kill("apiserver")
            wait_until(self._answers, "the API server to answer again")
        else:
            self.server.do(self.server.plane.outage(seconds))
        return time.monotonic() - began

    def log(self, service: str) -> str:
        """The last lines that a service logged, over all its starts."""
        lines = (self.data / "logs" / f"{service}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LAST_LINES:])

    def _answers(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz")
        except KubectlError:
            return False
        return True

    @contextlib.contextmanager
    def standing_aside(self, *services: str) -> Iterator[None]:
        """These services do nothing while the block lasts; afterwards new ones are there: the old may have lost their Leases."""
        with contextlib.ExitStack() as stack:
            for service in services:
                self.pause(service)
                stack.callback(self.kill, service)
            yield

    def wait_for_services(self) -> None:
        """Wait until all services run: one that ended with an outage is started again after a pause."""
        wait_until(lambda: all(_state(pid) not in {"", "Z"} for pid in self.pids.values()), "all services to run")

    def pause(self, service: str) -> None:
        """Let it do nothing until it is killed; one that has just ended is waited for until it runs again."""

        def is_paused() -> bool:
            pid = self.pids[service]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            return _state(pid) == "T"

        wait_until(is_paused, f"{service} to be paused")

    def kill(self, service: str) -> int:
        """kill -9; waits until the supervisor has started it again. The new process id."""
        old = self.pids[service]
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(old, signal.SIGKILL)
        wait_until(lambda: self.pids[service] != old, f"{service} to be started again")
        return self.pids[service]


def _state(pid: int) -> str:
    """The state of a process as Linux tells it, "T" for stopped by a signal; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def listens(address: str) -> bool:
    """Whether somebody takes connections at `address`, host and port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def are_established(definitions: str) -> bool:
    """Whether all kinds in what `kubectl get crd -o json` prints are served; `kubectl wait` fails on one without a status."""
    statuses = [each.get("status") or {} for each in json.loads(definitions)["items"]]
    return all(
        any(condition["type"] == "Established" and condition["status"] == "True" for condition in status.get("conditions") or ())
        for status in statuses
    )


def services_of(cluster: Cluster) -> list[str]:
    return [name for name in cluster.pids if name != "apiserver"]


def wait_until(holds: Callable[[], object], what: str, *, seconds: float = 60.0) -> None:
    """Ask until `holds` says yes.

    Raises:
        AssertionError: it did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.1)


@contextlib.contextmanager
def running(
    control_plane: str,
    folder: Path,
    *,
    nodes: int,
    mode: str = "simulated",
    prefix: str = "node-",
    scheduler: str = "",
    flavour: Flavour = PLAIN,
    kube_scheduler: bool = False,
    flags: tuple[str, ...] = (),
) -> Iterator[Cluster]:
    """A control plane, "embedded" or "real", with all services and simulated nodes; all its files are in `folder`.

    `mode` and `prefix` are those of the nodes; `scheduler` is the text of the scheduler's configuration; empty takes the default.
    `flavour` is that of a real one; `kube_scheduler`: Kubernetes' own runs beside ours there.
    `flags`: further ones of `pyroclast up`, which come after those of this run of the tests.
    """
    data = ["--data-dir", str(folder / "data"), "--nodes", str(nodes), "--node-mode", mode, "--node-prefix", prefix, *FLAGS]
    data += flags
    if scheduler:
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "scheduler.conf").write_text(scheduler)
    if control_plane == "embedded":
        audit_log = folder / "audit.log"
        with started("embedded", folder / "data" / "kubeconfig", audit_log, [*data, "--audit-log", str(audit_log)]) as cluster:
            yield cluster
        return
    with (
        real_server(folder / "real", scheduler=kube_scheduler, flavour=flavour) as server,
        started("real", server.kubeconfig, server.audit_log, [*data, "--kubeconfig", str(server.kubeconfig)]) as cluster,
    ):
        cluster.server = server
        yield cluster


@contextlib.contextmanager
def started(control_plane: str, kubeconfig: Path, audit_log: Path, arguments: list[str]) -> Iterator[Cluster]:
    """`pyroclast up ARGUMENTS` as a process, from its `ready` line to its orderly end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pyroclast_standalone", "up", *arguments],
        env={"PYROCLAST_RESTART_BACKOFF": RESTART_BACKOFF, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread of ours holds a lock then
    )
    data = Path(arguments[arguments.index("--data-dir") + 1])
    cluster = Cluster(control_plane, kubeconfig, audit_log, data, process)
    reader = threading.Thread(target=_read, args=(cluster,), daemon=True)
    reader.start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while not any(line.startswith("ready ") for line in cluster.lines):
            assert process.poll() is None, "pyroclast up ended: " + "".join(cluster.lines)
            assert time.monotonic() < deadline, "pyroclast up is not ready: " + "".join(cluster.lines)
            time.sleep(0.05)
        yield cluster
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
        reader.join()
        cluster.reader.close()
        assert process.stdout is not None
        process.stdout.close()


def _end_with_parent() -> None:
    """A run that is broken off takes its API server along: services that stayed would only say how they lose their Leases."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _read(cluster: Cluster) -> None:
    assert cluster.process.stdout is not None
    for line in cluster.process.stdout:
        cluster.lines.append(line)
        if found := _PID.match(line.strip()):
            cluster.pids[found[1]] = int(found[2])
