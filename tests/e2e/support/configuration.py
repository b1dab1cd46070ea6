"""Another configuration for the scheduler while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.e2e.support.cluster import Cluster, wait_until


def configure(cluster: Cluster, configuration: str) -> None:
    """Write what the scheduler of `cluster` is to do, and wait until it does it."""
    file = cluster.data / "scheduler.conf"
    if file.read_text() == configuration:
        return
    log = cluster.data / "logs" / "scheduler.log"
    before = log.read_text().count("configuration.loaded")
    file.write_text(configuration)
    wait_until(lambda: log.read_text().count("configuration.loaded") > before, "the scheduler to take up its configuration")


@contextlib.contextmanager
def configured(cluster: Cluster, configuration: str) -> Iterator[None]:
    """Its scheduler with `configuration`, and as it was afterwards."""
    before = (cluster.data / "scheduler.conf").read_text()
    configure(cluster, configuration)
    try:
        yield
    finally:
        configure(cluster, before)
