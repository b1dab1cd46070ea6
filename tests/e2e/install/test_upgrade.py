"""Each program of the release before this one works beside the others of this one, on the same objects."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyroclast_standalone.processes import free_port
from tests.e2e.faults.test_faults import phases, pods_created_twice, submit
from tests.e2e.support.cluster import Cluster, listens, wait_until
from tests.e2e.support.previous import previous_release, python_path

JOBS = 6


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the release before this one."""
    return previous_release(tmp_path_factory.mktemp("previous"))


def listed_flags(module: str, environment: dict[str, str]) -> set[str]:
    """The flags that the `--help` of a program lists."""
    command = [sys.executable, "-m", module, "--help"]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (--[a-z0-9-]+)", text, re.MULTILINE))


def known_flags(words: list[str], known: set[str]) -> list[str]:
    """The words of a command line without the flags that are not among `known`, and without their values."""
    kept, keeps = [], True
    for word in words:
        if word.startswith("--"):
            keeps = word.partition("=")[0] in known
        if keeps:
            kept.append(word)
    return kept


@contextlib.contextmanager
def replaced(cluster: Cluster, service: str, tree: Path, log: Path) -> Iterator[None]:
    """The program of `tree` stands in for a service, with the same arguments as far as it knows them."""
    words = Path(f"/proc/{cluster.pids[service]}/cmdline").read_text().rstrip("\0").split("\0")
    module, flags = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
    taken, free = json.loads((cluster.data / "addresses.json").read_text())[service], f"127.0.0.1:{free_port()}"
    flags = [free if word == taken else word for word in flags]
    environment = {**os.environ, "PYTHONPATH": python_path(tree)}
    flags = known_flags(flags, listed_flags(module, environment))
    with cluster.standing_aside(service), log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", module, *flags], env=environment, stdout=output, stderr=output)
        try:
            wait_until(lambda: listens(free) or process.poll() is not None, f"{module} of the release before to listen")
            assert process.poll() is None, log.read_text()
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", ["job-controller", "jobflow-controller", "scheduler"])
def test_jobs_complete_with_one_service_of_the_previous_release(
    cluster: Cluster, namespace: str, previous: Path, tmp_path: Path, service: str
) -> None:
    submit(cluster, namespace, JOBS, prefix="before")
    with replaced(cluster, service, previous, tmp_path / "log"):
        submit(cluster, namespace, JOBS, prefix="meanwhile")
        wait_until(lambda: phases(cluster, namespace) == {"Completed": 2 * JOBS}, "all Jobs to complete", seconds=120)
        submit(cluster, namespace, JOBS, prefix="across")
    submit(cluster, namespace, JOBS, prefix="after")
    wait_until(lambda: phases(cluster, namespace) == {"Completed": 4 * JOBS}, "all Jobs to complete", seconds=120)
    assert pods_created_twice(cluster, namespace) == []
