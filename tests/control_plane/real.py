"""A whole Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager and, on request, kube-scheduler.

RBAC and TLS are on, every request is in the audit log, and each part can be killed and brought back.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from pyroclast_standalone.processes import free_port
from tests.control_plane import build
from tests.control_plane.certificates import Certificates
from tests.control_plane.parts import Part, wait_until

__all__ = ["NATIVE", "PLAIN", "Flavour", "RealControlPlane", "real_control_plane"]

_ELECTION_MS = 3_000
"""etcd gives a request up after five seconds and two of these; at most so long it waits before it elects itself."""
_CONTROLLERS = "*,-node-lifecycle-controller"  # nodes here need not renew leases; a test that wants it asks for it
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=2)


@dataclass(frozen=True, slots=True)
class Flavour:
    """Which Kubernetes it is. `switched_on`: feature gates, on which all programs agree; `served`: APIs beside the usual ones."""

    kubernetes: str = build.PRESENT
    switched_on: tuple[str, ...] = ()
    served: tuple[str, ...] = ()

    @property
    def gates(self) -> dict[str, Any]:
        """Options of every program."""
        return {"feature-gates": ",".join(f"{gate}=true" for gate in self.switched_on)} if self.switched_on else {}

    @property
    def apis(self) -> dict[str, Any]:
        """Options of the API server: from 1.37 on it will not be announced inside the cluster by an address of loopback."""
        announced = {} if self.kubernetes == build.PRESENT else {"endpoint-reconciler-type": "none"}
        served = ",".join(f"{api}=true" for api in self.served)
        return announced | ({"runtime-config": served} if served else {})


PLAIN = Flavour()
"""The version that everything is tested with, as it is."""

NATIVE = Flavour(
    build.NEXT,
    (
        "GenericWorkload",
        "WorkloadWithJob",
        "TopologyAwareWorkloadScheduling",
        "PodGroupPreemptionPolicy",
        "DRAWorkloadResourceClaims",
        "CompositePodGroup",
    ),
    ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"),
)
"""The next version with PodGroups of its own, which Jobs make, and groups of these."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where the parts run: on loopback of this machine, or in the network of a node. `enter`: the command that leads there."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()
    has_kubelets: bool = False
    """Real kubelets renew their leases and are held to their own objects, and their pods use Services of one family."""

    @property
    def apis(self) -> dict[str, Any]:
        """Options of the API server."""
        if self.has_kubelets:
            return {
                "authorization-mode": "Node,RBAC",
                "enable-admission-plugins": "NodeRestriction",
                "service-cluster-ip-range": "10.0.0.0/24",
            }
        # a Service has addresses of both families where it asks
        return {"authorization-mode": "RBAC", "service-cluster-ip-range": "10.0.0.0/24,fd00:10::/112"}


class RealControlPlane:
    """The parts, and where to reach them. Made by `real_control_plane`."""

    def __init__(
        self,
        directory: Path,
        *,
        fsync: bool = True,
        scheduler: bool = False,
        controllers: str = _CONTROLLERS,
        flavour: Flavour = PLAIN,
        host: Host = Host(),
    ) -> None:
        self._flavour = flavour
        self._host = host
        self.directory = directory = directory.absolute()
        directory.mkdir(parents=True, exist_ok=True)
        self.audit_log = directory / "audit.log"
        self.certificates = _certificates(directory / "pki", host.address)
        self._etcd_port, self._api_port = free_port(), free_port()
        self.url = f"https://{host.address}:{self._api_port}"
        self.etcd_url = f"http://{host.address}:{self._etcd_port}"
        self.kubeconfig = self.write_kubeconfig("admin", directory / "kubeconfig")
        self.etcd = Part("etcd", partial(self._etcd_command, fsync=fsync), self._log("etcd"), self._etcd_ready)
        self.apiserver = Part("kube-apiserver", self._apiserver_command, self._log("kube-apiserver"), self._apiserver_ready)
        self.controller_manager = self._controller_manager(controllers)
        self.scheduler = self._scheduler() if scheduler else None

    @property
    def parts(self) -> list[Part]:
        """In the order in which they start."""
        parts = [self.etcd, self.apiserver, self.controller_manager, self.scheduler]
        return [part for part in parts if part is not None]

    async def start(self) -> None:
        """Start every part; returns when `/readyz` says ok and a namespace's `default` ServiceAccount can be used."""
        await self.etcd.start()
        await self.apiserver.start()
        for part in self.parts[2:]:
            await part.start()
        await wait_until(self._default_service_account, 60.0, "the ServiceAccount default/default")

    async def stop(self) -> None:
        """Stop every part, the last started first."""
        for part in reversed(self.parts):
            await part.stop()

    async def outage(self, down_seconds: float = 0.0) -> None:
        """Kill kube-apiserver and bring it back after a while.

        The controllers are started anew too, as in a cluster when they lose their lease: their informers would else back off
        for a minute or more, and no new namespace had a ServiceAccount.
        """
        await self.controller_manager.stop()
        await self.apiserver.restart(down_seconds=down_seconds, kill=True)
        await self.controller_manager.start()

    async def become(self, flavour: Flavour) -> None:
        """Start the API server and the controllers anew with other gates and APIs."""
        self._flavour = flavour
        await self.outage()

    async def compact(self) -> int:
        """Forget etcd's history up to now; the revision that is the oldest from now on."""
        async with aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as session:
            key = base64.b64encode(b"/").decode()
            async with session.post(f"{self.etcd_url}/v3/kv/range", json={"key": key, "count_only": True}) as answer:
                answer.raise_for_status()
                revision = int((await answer.json(content_type=None))["header"]["revision"])
            compaction = {"revision": str(revision), "physical": True}
            async with session.post(f"{self.etcd_url}/v3/kv/compaction", json=compaction) as answer:
                answer.raise_for_status()
        return revision

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET as the administrator; status 0 when nobody answers."""
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        context.load_cert_chain(self.certificates.certificate_of("admin"), self.certificates.key_of("admin"))
        try:
            async with (
                aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as session,
                session.get(self.url + path, ssl=context) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""

    async def _etcd_ready(self) -> bool:
        try:
            async with (
                aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as session,
                session.get(f"{self.etcd_url}/health") as answer,
            ):
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _apiserver_ready(self) -> bool:
        status, _ = await self.get("/readyz")
        return status == 200

    async def _default_service_account(self) -> bool:
        status, _ = await self.get("/api/v1/namespaces/default/serviceaccounts/default")
        return status == 200

    def _etcd_command(self, *, fsync: bool) -> list[str]:
        peer = f"http://{self._host.address}:{free_port()}"
        options = {
            "data-dir": self.directory / "etcd",
            "listen-client-urls": self.etcd_url,
            "advertise-client-urls": self.etcd_url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "election-timeout": _ELECTION_MS,
            "log-level": "warn",
        }
        return [*self._command("etcd", options), *([] if fsync else ["--unsafe-no-fsync"])]

    def _apiserver_command(self) -> list[str]:
        policy = self._write_yaml("audit-policy.yaml", _AUDIT_POLICY)
        pki = self.certificates
        options = {
            "etcd-servers": self.etcd_url,
            "bind-address": self._host.address,
            "advertise-address": self._host.address,
            "secure-port": self._api_port,
            "tls-cert-file": pki.certificate_of("kube-apiserver"),
            "tls-private-key-file": pki.key_of("kube-apiserver"),
            "client-ca-file": pki.ca,
            "kubelet-client-certificate": pki.certificate_of("kubelet-client"),
            "kubelet-client-key": pki.key_of("kubelet-client"),
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-key-file": self.directory / "pki" / "service-accounts.pub",
            "service-account-signing-key-file": pki.key_of("service-accounts"),
            "service-account-issuer": "https://localhost",
            "audit-policy-file": policy,
            "audit-log-path": self.audit_log,
            **self._flavour.gates,
            **self._flavour.apis,
            **self._host.apis,
        }
        return [*self._command("kube-apiserver", options), "--allow-privileged"]

    def _controller_manager(self, controllers: str) -> Part:
        pki = self.certificates
        options = {
            "kubeconfig": self.write_kubeconfig("kube-controller-manager"),
            "service-account-private-key-file": pki.key_of("service-accounts"),
            "root-ca-file": pki.ca,
            "cluster-signing-cert-file": pki.ca,
            "cluster-signing-key-file": pki.key_of("ca"),
            "leader-elect": "false",
            "controllers": controllers,
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
            "bind-address": self._host.address,
            **self._flavour.gates,
        }
        return self._watched(
            "kube-controller-manager", [*self._command("kube-controller-manager", options), "--use-service-account-credentials"]
        )

    def _scheduler(self) -> Part:
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.write_kubeconfig("kube-scheduler")), "qps": 5000, "burst": 10000},
            "leaderElection": {"leaderElect": False},
        }
        options = {
            "config": self._write_yaml("kube-scheduler.yaml", configuration),
            "bind-address": self._host.address,
            **self._flavour.gates,
        }
        return self._watched("kube-scheduler", self._command("kube-scheduler", options))

    def _command(self, name: str, options: dict[str, Any]) -> list[str]:
        return [
            *self._host.enter,
            str(build.program(name, self._flavour.kubernetes)),
            *(f"--{option}={value}" for option, value in options.items()),
        ]

    def _watched(self, name: str, command: list[str]) -> Part:
        """A program that tells of its health on a port that nobody else asks for, so it is drawn at each start."""
        port = 0

        def with_port() -> list[str]:
            nonlocal port
            port = free_port()
            return [*command, f"--secure-port={port}"]

        return Part(name, with_port, self._log(name), lambda: _is_ok(f"https://{self._host.address}:{port}/healthz"))

    def write_kubeconfig(self, name: str, path: Path | None = None) -> Path:
        """A kubeconfig with the client certificate `name`."""
        pki = self.certificates
        user = {"client-certificate": str(pki.certificate_of(name)), "client-key": str(pki.key_of(name))}
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {"server": self.url, "certificate-authority": str(pki.ca)}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": name, "namespace": "default"}}],
            "current-context": "real",
        }
        path = path or self.directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(configuration))
        return path

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _write_yaml(self, name: str, content: Any) -> Path:
        path = self.directory / name
        path.write_text(yaml.safe_dump(content))
        return path


@asynccontextmanager
async def real_control_plane(
    directory: Path,
    *,
    fsync: bool = True,
    scheduler: bool = False,
    controllers: str = _CONTROLLERS,
    flavour: Flavour = PLAIN,
) -> AsyncIterator[RealControlPlane]:
    """Run a control plane with its data, keys and logs in `directory`; what is there from an earlier run goes on.

    Raises:
        build.GoMissing: a program is not built yet and cannot be built here.
    """
    plane = RealControlPlane(directory, fsync=fsync, scheduler=scheduler, controllers=controllers, flavour=flavour)
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


def _certificates(directory: Path, address: str) -> Certificates:
    certificates = Certificates(directory)
    certificates.server("kube-apiserver", address)
    certificates.client("admin", "kubernetes-admin", ["system:masters"])
    certificates.client("kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"])
    certificates.client("kube-controller-manager", "system:kube-controller-manager")
    certificates.client("kube-scheduler", "system:kube-scheduler")
    certificates.signing_key("service-accounts")
    return certificates


async def _is_ok(url: str) -> bool:
    try:
        async with aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as session, session.get(url, ssl=False) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
