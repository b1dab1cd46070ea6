"""The example programs of the Python client run as they stand."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyroclast.client as pc
from tests.e2e.client.test_executor import STAND_IN
from tests.e2e.support.cluster import Cluster
from tests.unit.docs.pages import PAGES, ROOT, blocks

pytestmark = pytest.mark.timeout(600)  # they start many processes

EXAMPLES = ROOT / "examples" / "python"


@pytest.fixture(scope="module")
def client(control_plane: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pc.Client]:
    """What the programs use: a control plane on this machine, or a real one whose nodes run processes."""
    if control_plane == "embedded":
        with pc.local(nodes=2) as client:
            yield client
        return
    cluster: Cluster = request.getfixturevalue("process_nodes")
    store = f"file://{tmp_path_factory.mktemp('store')}"
    with pc.Client(namespace="default", image="local", store=store, kubeconfig=str(cluster.kubeconfig)) as client:
        client.asynchronous.python = sys.executable
        yield client


def output_of(program: str | Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    runpy.run_path(str(EXAMPLES / program), run_name="__main__")
    return capsys.readouterr().out


@pytest.fixture
def torchrun(client: pc.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that starts the script, which sets no ranks."""
    (tmp_path / "torchrun").write_text(STAND_IN.format(python=sys.executable))
    (tmp_path / "torchrun").chmod(0o755)
    monkeypatch.setitem(client.asynchronous.env, "PATH", f"{tmp_path}:/usr/bin:/bin")


def test_gang_example_prints_all_ranks_and_results_are_read_later(
    client: pc.Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert output_of("gang.py", capsys) == "[0, 1, 2, 3]\n"
    job = client.jobs()[0]
    monkeypatch.setattr(sys, "argv", ["later.py", job.name])
    assert output_of("later.py", capsys) == "\n0\n"


def test_sweep_example_prints_the_least_loss(client: pc.Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of("sweep.py", capsys) == "the least loss is 0.0\n"


def test_flow_example_prints_its_result(client: pc.Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of("flow.py", capsys) == "4122\n"


@pytest.mark.usefixtures("torchrun")
def test_torchrun_example_logs_its_rank(client: pc.Client) -> None:
    runpy.run_path(str(EXAMPLES / "torchrun.py"), run_name="__main__")
    assert any("rank 0 of 1" in job.logs() for job in client.jobs())


@pytest.mark.usefixtures("torchrun")
def test_programs_of_the_five_tasks_page_print_the_expected_results(
    client: pc.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {job.name for job in client.jobs()}
    programs = [block for block in blocks(PAGES["docs/explanation/five-tasks.md"], "python") if "pyroclast" in block]
    shutil.copy(EXAMPLES / "train.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    said = []
    for number, program in enumerate(programs, 1):
        first = next((job.name for job in client.jobs() if job.name.startswith("rank-") and job.name not in before), "")
        (tmp_path / f"task_{number}.py").write_text(program.replace("rank-abcde", first))
        said.append(output_of(tmp_path / f"task_{number}.py", capsys))
    assert (said[0], said[2:]) == ("[0, 1, 2, 3]\n", ["", "2061\n", " 0\n"])
    assert said[1] == f"{[(number / 100 - 0.5) ** 2 for number in range(100)]}\n"


def test_gang_example_runs_without_a_cluster_when_pyroclast_is_local() -> None:
    environment = {**os.environ, "PYROCLAST": "local"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "gang.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[0, 1, 2, 3]\n", 0), done.stderr


def test_every_block_of_the_tutorial_runs(tmp_path: Path) -> None:
    program = "\n".join(blocks(PAGES["docs/tutorials/python.md"], "python"))
    assert program.count("assert") > 8
    (tmp_path / "tutorial.py").write_text(program)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "tutorial.py")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError" in done.stdout
