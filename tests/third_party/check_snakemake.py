"""The real Snakemake, whose jobs are pods."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import snakemake.common.tests as suite

import pyroclast.client as pc
from pyroclast_client.integrations.snakemake import ExecutorSettings

Wait = Callable[[Callable[[], object]], None]
BAD = """
rule bad:
    output: "bad.txt"
    shell: "echo this is wrong >&2; exit 3"

rule together:
    output: "hosts.txt"
    resources: gang=3
    shell: "echo $VC_WORKERS_HOSTS > {output}"

rule slow:
    output: "slow.txt"
    shell: "sleep 600"
"""


def snakemake(client: pc.Client, folder: Path, target: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "snakemake", "--executor", "pyroclast", "--jobs", "4"]
    command += [
        "--seconds-between-status-checks",
        "1",
        "--pyroclast-image",
        "local",
        "--pyroclast-namespace",
        client.namespace,
        target,
    ]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def workflow(tmp_path: Path, example: Callable[[str], str]) -> Path:
    (tmp_path / "Snakefile").write_text(example("Snakemake") + BAD)
    return tmp_path


def test_the_workflow_of_the_guide_runs(client: pc.Client, workflow: Path) -> None:
    process = snakemake(client, workflow, "total.txt")
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert (workflow / "total.txt").read_text() == "6\n"
    jobs = {job.name.rpartition("-")[0]: job.object()["spec"] for job in client.jobs()}
    assert set(jobs) >= {"count", "total"}
    (container,) = jobs["count"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "100M"}


def test_a_rule_that_fails_ends_the_workflow_and_shows_what_it_printed(client: pc.Client, workflow: Path) -> None:
    process = snakemake(client, workflow, "bad.txt")
    said, _ = process.communicate()
    assert process.returncode == 1
    assert re.search(r"Job bad-\w+ is Failed", said), said
    assert "this is wrong" in said


def test_a_rule_with_a_gang_has_its_pods_together_and_the_names_of_the_others(client: pc.Client, workflow: Path) -> None:
    process = snakemake(client, workflow, "hosts.txt")
    said, _ = process.communicate()
    assert process.returncode == 0, said
    (job,) = [job for job in client.jobs() if job.name.startswith("together-")]
    spec = job.object()["spec"]
    assert (spec["minAvailable"], [task["replicas"] for task in spec["tasks"]]) == (3, [1, 2])
    hosts = (workflow / "hosts.txt").read_text().strip().split(",")
    assert hosts == [f"{job.name}-workers-{number}.{job.name}" for number in range(2)]


def test_an_interrupt_ends_the_jobs(client: pc.Client, workflow: Path, wait_until: Wait) -> None:
    process = snakemake(client, workflow, "slow.txt")
    wait_until(lambda: [job for job in client.jobs() if job.name.startswith("slow-") and job.phase == "Running"])
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode != 0, said
    (slow,) = [job for job in client.jobs() if job.name.startswith("slow-")]
    wait_until(lambda: slow.phase == "Terminated")


class TestOfTheInterface(suite.TestWorkflowsLocalStorageBase):
    """The tests that Snakemake has for executors of others: a simple workflow, and one with groups of jobs."""

    __test__ = True

    def get_executor(self) -> str:
        return "pyroclast"

    def get_executor_settings(self) -> ExecutorSettings:
        return ExecutorSettings(image="local", namespace=os.environ["PYROCLAST_TEST_NAMESPACE"])
