"""Users of a shared cluster: ServiceAccounts with a role in one namespace, and the programs that they run."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.support.cluster import Cluster
from tests.e2e.support.shell import PROGRAMS, Shell

INTERRUPTED = 130


class User(Shell):
    """A ServiceAccount at work in its namespace."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, namespace: str, name: str = "ann") -> None:
        super().__init__(kubeconfig, namespace)
        self.cluster, self.name = cluster, name

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The object that the user makes in the user's namespace. KubectlError: it is refused."""
        made: dict[str, Any] = json.loads(self.cluster.kubectl(*self._creates, stdin=json.dumps(manifest)))
        return made

    def refused(self, manifest: dict[str, Any]) -> str:
        """What kubectl says where the user must not make the object."""
        return self.cluster.refused(*self._creates, stdin=json.dumps(manifest))

    @property
    def _creates(self) -> list[str]:
        return [f"--as={self.user}", "create", "-n", self.namespace, "-o", "json", "-f", "-"]

    @contextlib.contextmanager
    def watching(self, *view: str) -> Iterator[None]:
        """Look at a view that is shown again."""
        command = [str(PROGRAMS / "vcctl"), *view, "-w"]
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)
        assert process.returncode == INTERRUPTED


def user_of(cluster: Cluster, namespace: str, folder: Path, name: str = "ann") -> User:
    """The programs as a ServiceAccount that has no rights yet."""
    cluster.kubectl("create", "serviceaccount", name, "-n", namespace)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", name, "-n", namespace).strip()
    document["users"] = [{"name": name, "user": {"token": token}}]
    for context in document["contexts"]:
        context["context"] |= {"namespace": namespace, "user": name}
    path = folder / f"kubeconfig-{name}"
    path.write_text(yaml.safe_dump(document))
    return User(cluster, path, namespace, name)


def with_role(user: User, role: str = "pyroclast-user") -> User:
    """The same user with a ClusterRole bound in the user's namespace."""
    account = f"--serviceaccount={user.namespace}:{user.name}"
    user.cluster.kubectl("create", "rolebinding", f"{user.name}-{role}", "-n", user.namespace, f"--clusterrole={role}", account)
    return user
