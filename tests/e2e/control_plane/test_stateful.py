"""Random sequences of writes, sent to a real kube-apiserver and to ours, are answered the same and leave the same behind."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.e2e.conformance.conftest import Pair, pair  # noqa: F401 - a fixture of the tests beside
from tests.e2e.conformance.driver import connect
from tests.e2e.conformance.hooks import hook_server
from tests.e2e.conformance.stateful_machine import machine_of
from tests.e2e.conformance.stateful_setup import set_up

ASK_SECONDS = 120.0


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("sequences", "steps"), [(20, 20), (1000, 50)], ids=["few", "many"])
async def test_random_writes_get_the_same_responses_from_kube_apiserver_and_embedded_server(
    pair: Pair,  # noqa: F811
    tmp_path: Path,
    sequences: int,
    steps: int,
    record_property: pytest.RecordProperty,
) -> None:
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for name, kubeconfig in (("real", pair.real), ("ours", pair.ours)):
            hooks = await stack.enter_async_context(hook_server(tmp_path / f"hooks-{name}"))
            servers.append(await stack.enter_async_context(connect(name, kubeconfig, hooks)))
        await asyncio.gather(*map(set_up, servers))
        machine = machine_of(*servers, lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(ASK_SECONDS))
        how = settings(
            max_examples=sequences,
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        started = time.monotonic()
        await asyncio.to_thread(run_state_machine_as_test, machine, settings=how)
        print(f"{machine.counts.sequences} sequences, {machine.counts.steps} steps, {time.monotonic() - started:.0f} s")
    record_property("sequences", machine.counts.sequences)
    record_property("steps", machine.counts.steps)
