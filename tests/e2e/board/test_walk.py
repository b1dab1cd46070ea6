"""Twelve questions that people ask most, each answered by a page in a real browser and by one command in a terminal.

With PYROCLAST_SCREENSHOTS=FOLDER the test also takes the pictures of `docs/how-to/find-answers.md`.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.board.showcase import FLAGS, SETTINGS, gang, queue
from tests.e2e.support.board import url
from tests.e2e.support.cluster import Cluster, running, wait_until
from tests.unit.board.browser import Browser, running_browser

pytestmark = pytest.mark.timeout(600)
CONFIGURATION = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}]
"""
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
QUESTIONS: dict[str, tuple[str, str, str, str]] = {
    "why did it fail": ("/jobs/{broken}", "exit code 3", "explain broken", "exit code 3"),
    "my Jobs, now": ("/?user=ann", "victim", "jobs -u ann", "victim"),
    "who took my pods": ("/jobs/{victim}", "urgent", "explain victim", "urgent"),
    "can I trust the estimate": ("/jobs/{later}", "in queue research", "explain later", "in queue research"),
    "utilisation over the week": ("/queues/research?time=day", "As a table", "report queues --since 1h", "research"),
    "which queue starves": ("/queues", "starved", "queues --need", "starved"),
    "which node is away, whose Jobs": ("/nodes", "Nodes that take no pods", "explain node/gpu-5", "Cordoned"),
    "what changed": ("/queues/research?time=day", "pods evicted", "report evictions", "research"),
    "what would 8 more GPUs do": (
        "/what-if?add=nvidia.com%2Fgpu%3D64",
        "would start earlier",
        "what-if --add nvidia.com/gpu=64",
        "later",
    ),
    "when is there a hole of 2 x 8": ("/nodes?hole=2x8", "free on each", "nodes --hole 2x8", "2 nodes with 8"),
    "who uses most": ("/history?by=user", "ann", "report usage --by user", "ann"),
    "how did the last runs go": ("/history?name=nightly-*", "nightly-2", "history --name nightly-*", "nightly-2"),
}


def in_terminal(cluster: Cluster, words: Sequence[str]) -> str:
    """What a command prints in a terminal of 80 columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "pyroclast_cli", *words]
    environment = {
        **{name: each for name, each in os.environ.items() if name != "COLUMNS"},
        "KUBECONFIG": str(cluster.kubeconfig),
    }
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        parts = []
        try:
            while data := os.read(master, 65536):
                parts.append(data)
        except OSError:  # the terminal has no writer any more
            pass
        finally:
            os.close(master)
        assert process.wait(60) in {0, 3}, words
    return b"".join(parts).decode()


def submit(cluster: Cluster, user: str, *bodies: dict[str, Any]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
    cluster.kubectl(f"--as={user}", "--as-group=system:masters", "create", "-f", "-", stdin=listed)


def reaches(cluster: Cluster, name: str, phase: str) -> None:
    def is_there() -> bool:
        return cluster.get("vcjob", name).get("status", {}).get("state", {}).get("phase") == phase

    wait_until(is_there, f"{name} to be {phase}", seconds=90)


def prepare(cluster: Cluster) -> dict[str, str]:
    """A failed Job, an evicted one, runs of one name, and two that wait; the uids by name."""
    submit(cluster, "root", HIGH, queue("research", deserved=64, capability=64))
    submit(cluster, "ann", gang("broken", "research", 1, 1, command=["sh", "-c", "exit 3"]))
    for number in (1, 2):
        submit(cluster, "ann", gang(f"nightly-{number}", "research", 1, 1, command=["sleep", "1"]))
    reaches(cluster, "broken", "Failed")
    reaches(cluster, "nightly-2", "Completed")
    submit(cluster, "ann", gang("victim", "research", 8, 5, runningEstimate="50m", minAvailable=1))
    reaches(cluster, "victim", "Running")
    cluster.kubectl("cordon", "gpu-5")
    submit(cluster, "ben", gang("urgent", "research", 8, 2, runningEstimate="90m", priorityClassName="high"))
    reaches(cluster, "urgent", "Running")
    submit(cluster, "ben", gang("later", "research", 8, 3, runningEstimate="20m"))
    names = ("broken", "victim", "later")
    return {name: str(cluster.get("vcjob", name)["metadata"]["uid"]) for name in names}


async def shows(browser: Browser, page: str, word: str) -> None:
    """Load a page until it has a word, as the estimates and the history take seconds."""
    for _ in range(200):
        await browser.open(page)
        if await browser.run("return document.querySelector('main').textContent.includes(arguments[0])", word):
            return
        await browser.run("return new Promise((done) => setTimeout(done, 500))")
    text = await browser.run("return document.querySelector('main').textContent")
    raise AssertionError(f"{page} has no {word!r}: {text[:3000]}")


async def test_twelve_questions_are_answered_by_a_page_and_by_one_command(
    control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    with running(control_plane, tmp_path / "plane", nodes=6, prefix="gpu-", scheduler=CONFIGURATION, flags=FLAGS) as cluster:
        uids = prepare(cluster)
        board, folder = url(cluster), os.environ.get("PYROCLAST_SCREENSHOTS", "")
        async with running_browser() as browser:
            await browser.emulate(width=1200, height=900)
            for number, (question, (path, word, command, printed)) in enumerate(QUESTIONS.items(), 1):
                await shows(browser, board + path.format(**uids), word)
                told = in_terminal(cluster, command.split(" "))
                assert printed in told, f"{question}: {command}: {told}"
                if folder:
                    await browser.picture(Path(folder) / f"question-{number}.webp")
