"""Stores in a PersistentVolumeClaim: results, checkpoints and values of flows come back, though this side mounts no claim."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyroclast.client as pc
from pyroclast.api.types import JOBS, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from pyroclast_client import errors, stores
from pyroclast_client.loops import run
from pyroclast_client.planes import LocalClient
from pyroclast_client.runner import sealing
from tests.e2e.support.cluster import wait_until

pytestmark = pytest.mark.timeout(600)  # they start many processes

STORE = "pvc://scratch/results"
SPEC = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "shared"}


@pytest.fixture(scope="module")
def local() -> Iterator[LocalClient]:
    async def claim() -> None:
        kube = (await client.asynchronous.session()).kube
        await kube.create(STORAGE_CLASSES, {"metadata": {"name": "shared"}, "provisioner": "standalone.pyroclast.io/volume"})
        await kube.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "scratch", "namespace": "default"}, "spec": SPEC})

    with pc.local(nodes=2, store=STORE) as client:
        run(claim())
        yield client


@pc.task
def noise(size: int) -> bytes:
    """As many bytes."""
    return bytes(range(256)) * (size // 256)


@pc.task
def total(data: bytes) -> int:
    """A number of a large value."""
    return sum(data)


@pc.flow(keep=False)
def chained(size: int) -> Any:
    """Hands a large value on, and returns it."""
    data = noise(size)
    total(data)
    return data


def readers(client: LocalClient) -> list[str]:
    async def names() -> list[str]:
        items, _ = await (await client.asynchronous.session()).kube.list(JOBS, "default")
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith(stores.NAME)]

    return run(names())


def test_large_result_in_a_claim_is_read_through_jobs_that_are_deleted_afterwards(local: LocalClient) -> None:
    size = 3 << 20
    assert noise.run(size).result(200) == noise(size)
    assert readers(local) == []


def test_large_value_of_a_flow_is_read_through_a_claim_after_its_jobs_were_deleted(local: LocalClient) -> None:
    flow = chained.run(2 << 20).wait(200)
    wait_until(lambda: not [job for job in local.jobs() if job.name.startswith(flow.name)], "its Jobs to go")
    assert flow.result(200) == noise(2 << 20)
    assert readers(local) == []


def test_result_too_large_to_read_through_pods_raises_and_suggests_to_mount_the_claim(
    local: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = noise.run(2 << 20)
    with monkeypatch.context() as limited:
        limited.setattr(stores, "MOST_SLICES", 1)
        with pytest.raises(errors.ResultTooLarge, match=r"pvc://scratch/.* mount the claim where this program runs"):
            job.result(200)


def test_result_is_read_from_a_locally_mounted_claim_without_a_reader_pod(
    local: LocalClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = noise.run(2 << 20).wait(200)
    data = Path(local.kubeconfig).parent
    (mounted,) = data.rglob("claims/default/scratch")
    monkeypatch.setenv(sealing.CLAIMS, f"other={tmp_path},scratch={mounted}")
    monkeypatch.setattr(stores, "_reader", None)
    assert job.result(200) == noise(2 << 20)
    blob = os.urandom(800 << 10)
    assert pc.task(len).run(blob).result(200) == len(blob)


def test_a_forged_value_in_the_claim_is_not_unpickled(local: LocalClient, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    job = noise.run(2 << 20).wait(200)
    (mounted,) = Path(local.kubeconfig).parent.rglob("claims/default/scratch")
    submission = job.object()["metadata"]["annotations"]["client.pyroclast.dev/submission"]
    (kept,) = (mounted / "results" / submission).rglob("result")
    kept.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(errors.ForgedResult):
        job.result(200)
    assert not (tmp_path / "made").exists()
