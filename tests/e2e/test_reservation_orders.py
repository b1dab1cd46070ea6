"""Each order of nodes and each pace of locking, on a small cluster, with a change of leader in the middle of the locking."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, running, wait_until
from tests.e2e.test_reservation import WITHOUT, Stream, events, keeping, reservation

NODES = 15
WANTED = 9
SECONDS = (9, 15, 12, 18, 10, 16)  # of the small Jobs: they end one after the other, so that locking takes several periods
ORDERS = list(itertools.product(["capacity", "idle"], ["1", "3", "all"]))


@pytest.fixture(scope="module")
def cluster(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of this page's own, since its nodes are to be full."""
    with running(control_plane, tmp_path_factory.mktemp("orders"), nodes=NODES, scheduler=WITHOUT) as cluster:
        yield cluster


def locks(cluster: Cluster) -> dict[str, float]:
    """The locked nodes, and since when."""
    found = reservation(cluster).get("locks", [])
    assert isinstance(found, list)
    return {each["node"]: each["since"] for each in found}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("order", "pace"), ORDERS, ids=[f"{order}-{pace}" for order, pace in ORDERS])
def test_a_reservation_goes_on_under_another_leader(cluster: Cluster, order: str, pace: str) -> None:
    (cluster.data / "scheduler.conf").write_text(WITHOUT)
    stream = Stream(cluster, estimated=False, nodes=NODES, seconds=SECONDS, name=f"{order}-{pace}")
    stream.flow()
    wait_until(lambda: stream.flow() >= 0 and stream.count("Running") == NODES, "the small Jobs to fill the cluster", seconds=120)
    (cluster.data / "scheduler.conf").write_text(keeping(f"nodeOrder: {order}, locksPerCycle: {pace}"))
    stream.submit("large", 600, replicas=WANTED, minimum=WANTED)
    wait_until(lambda: stream.flow() >= 0 and locks(cluster), "nodes to be kept", seconds=90)

    cluster.kill("scheduler")  # what it knew is gone; the next one knows the annotation only
    before, since = locks(cluster), reservation(cluster)["since"]
    enough = NODES if pace == "all" else WANTED
    wait_until(
        lambda: stream.flow() >= 0 and (len(locks(cluster)) >= enough or stream.count("Running", of="=large") == WANTED),
        "the next leader to go on",
        seconds=120,
    )
    if after := locks(cluster):  # unless the large Job has started meanwhile
        assert before.items() <= after.items(), "no lock was lost or begun anew"
        assert reservation(cluster)["since"] == since, "the target is the same, since the same time"
        assert len(after) <= enough, "no superfluous node is locked"
    wait_until(lambda: stream.flow() >= 0 and stream.count("Running", of="=large") == WANTED, "the large Job to run", seconds=180)
    assert stream.count("Pending"), "small Jobs still wait: it did not just outlast them"
    wait_until(lambda: not locks(cluster), "the nodes to be given back")
    assert len(events(cluster, "ReservationTarget")) == 1, "chosen once, by the first leader"
    cluster.kubectl("delete", "vcjob", "--all", "-n", "default", "--wait=false")
    wait_until(lambda: not cluster.get("vcjob,pods", "-n", "default")["items"], "the cluster to be empty", seconds=120)
    cluster.kubectl("delete", "events", "--all", "-n", "default")
