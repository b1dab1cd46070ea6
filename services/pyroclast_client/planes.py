"""A control plane on this machine for the time of a `with` block, so that the same code runs without a cluster."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from pyroclast_client.asynchronous import AsyncClient
from pyroclast_client.errors import NoCluster, Usage
from pyroclast_client.synchronous import Client

READY: Final = "ready "
IMAGE: Final = "local"  # a placeholder: process nodes run the interpreter of this machine
STOP_SECONDS: Final = 20.0


class LocalClient(Client):
    """A client with its own control plane, which starts and stops with the block."""

    def __init__(self, nodes: int, resources: Mapping[str, str], *, store: str | None) -> None:
        super().__init__(image=IMAGE, store=store)
        self._nodes, self._resources = nodes, resources
        self._keeper: subprocess.Popen[str] | None = None

    def __repr__(self) -> str:
        return f"<LocalClient of {self._nodes} nodes>"

    def __enter__(self) -> Self:
        folder = Path(tempfile.mkdtemp(prefix="pyroclast-local-"))
        arguments = ["--port", "0", "--nodes", str(self._nodes), "--node-mode", "process"]
        for name, amount in self._resources.items():
            arguments += ["--node-resource", f"{name}={amount}"]
        command = [sys.executable, "-m", "pyroclast_client.keeper", str(folder), *arguments]
        self._keeper = subprocess.Popen(  # noqa: S603 - a fixed command
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            self._await_ready(self._keeper)
            store = self.asynchronous.store or f"file://{folder}/store"
            self.asynchronous = AsyncClient(namespace="default", image=IMAGE, store=store, kubeconfig=str(folder / "kubeconfig"))
            self.asynchronous.python = sys.executable
            self.asynchronous.env = {"CUDA_VISIBLE_DEVICES": ""}  # the GPUs are simulated
            return super().__enter__()
        except BaseException:
            self._stop()
            raise

    def __exit__(self, *details: object) -> None:
        try:
            super().__exit__(*details)
        finally:
            self._stop()

    def start(self) -> Self:
        """Start the control plane without a block, for a notebook. `stop` stops it, and so does the end of the process."""
        return self.__enter__()

    def stop(self) -> None:
        """Stop the control plane and all processes in it."""
        self.__exit__(None, None, None)

    @property
    def kubeconfig(self) -> str:
        """The path of the administrator's kubeconfig, for `kubectl` and `vcctl`."""
        return self.asynchronous.kubeconfig

    def _await_ready(self, keeper: subprocess.Popen[str]) -> None:
        said: list[str] = []
        for line in keeper.stdout or ():
            if line.startswith(READY):
                return
            said.append(line)
        raise NoCluster(
            f"the local control plane did not start: {''.join(said[-5:]).strip()}. Try `pyroclast up`, which says more"
        )

    def _stop(self) -> None:
        """Stop the control plane by closing the input of the keeper, as happens when this process dies."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        if keeper.stdin is not None:
            keeper.stdin.close()
        try:
            keeper.wait(STOP_SECONDS)
        finally:
            if keeper.stdout is not None:
                keeper.stdout.close()


def local(nodes: int = 4, gpus: int = 0, *, resources: Mapping[str, str] | None = None, store: str | None = None) -> LocalClient:
    """Return a client of a control plane on this machine: `with pc.local(nodes=4, gpus=8) as c:`.

    Functions run as processes with the interpreter of this process. Images are not used. After the block nothing remains, also
    when this process is killed.

    Args:
        nodes: how many nodes. Each node has 8 CPUs and 16 GiB for the scheduler to allocate.
        gpus: simulated GPUs of each node.
        resources: further resources of each node, by name.
        store: the URL at which large results are stored. A temporary folder by default.
    """
    if importlib.util.find_spec("pyroclast_standalone") is None:
        raise Usage("local: the control plane is not installed; `pip install 'pyroclast-client[local]'`")
    offered = {**({"nvidia.com/gpu": str(gpus)} if gpus else {}), **(resources or {})}
    return LocalClient(nodes, offered, store=store)
