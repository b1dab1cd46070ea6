"""The client that the checks of the environments use: that of the cluster in KUBECONFIG, whose nodes run processes."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pyroclast.client as pc

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "submit-from-other-tools.md"


@pytest.fixture(scope="session")
def client() -> Iterator[pc.Client]:
    with pc.Client(namespace=os.environ["PYROCLAST_TEST_NAMESPACE"], image="local") as client:
        client.asynchronous.python = sys.executable  # pods find the packages of this environment
        yield client


@pytest.fixture(scope="session")
def delete_pod(client: pc.Client) -> Callable[[str], None]:
    """Take a pod away, as an eviction does."""
    from pyroclast.api.types import PODS, Key
    from pyroclast_client.loops import run

    async def delete(name: str) -> None:
        await (await client.asynchronous.session()).kube.delete(PODS, Key(client.namespace, name))

    return lambda name: run(delete(name))


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Ask until the answer is yes."""

    def wait(holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + 90
        while not holds():
            assert time.monotonic() < deadline, "waited 90 s"
            time.sleep(0.1)

    return wait


@pytest.fixture(scope="session")
def example() -> Callable[[str], str]:
    """The Python that the guide shows first in the section of a tool."""

    def find(heading: str) -> str:
        section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
        found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
        assert found is not None
        return found[1]

    return find
