"""A whole control plane with all services for a benchmark."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import Cluster, started
from tests.e2e.server import real_server

__all__ = ["running"]


@contextlib.contextmanager
def running(control_plane: str, *, nodes: int) -> Iterator[Cluster]:
    """A control plane, "real" or "embedded", in a folder that goes when it ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = ["--data-dir", str(folder / "data"), "--nodes", str(nodes)]
        if control_plane == "embedded":
            audit_log = folder / "audit.log"
            with started(
                "embedded", folder / "data" / "kubeconfig", audit_log, [*data, "--audit-log", str(audit_log)]
            ) as cluster:
                yield cluster
            return
        with (
            real_server(folder / "real") as server,
            started("real", server.kubeconfig, server.audit_log, [*data, "--kubeconfig", str(server.kubeconfig)]) as cluster,
        ):
            cluster.server = server
            yield cluster
