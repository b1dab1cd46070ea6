"""Rotation under load: while authorities and certificates are replaced and a replica is killed, no call fails."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from pyroclast_admission.certificates import issue
from pyroclast_admission.certificates.issue import Material, carry_out
from pyroclast_admission.certificates.plan import Step, next_step
from tests.bench.admission_server import Serving, policy, serving
from tests.unit.admission.clients import review
from tests.unit.rules.builders import job

START = datetime(2026, 1, 1, tzinfo=UTC)
VALID, INVALID = job(), job(queue="nowhere")


class Callers:
    """An API server in small: it keeps connections, opens a new one now and then with the bundle it was told last, and goes to
    another replica when one is gone.
    """

    def __init__(self, replicas: list[Serving], bundle: bytes) -> None:
        self.replicas = replicas
        self.calls = 0
        self.failures: list[str] = []
        self.trust(bundle)
        self._kept: dict[int, aiohttp.ClientSession] = {}

    def trust(self, bundle: bytes) -> None:
        self._tls = ssl.create_default_context(cadata=bundle.decode())

    async def close(self) -> None:
        for session in self._kept.values():
            await session.close()

    async def call(self, number: int) -> None:
        given, allowed = (VALID, True) if number % 2 else (INVALID, False)
        self.calls += 1
        for replica in [self.replicas[(number + n) % len(self.replicas)] for n in range(len(self.replicas))]:
            try:
                answer = await self._ask(replica, review("/jobs/validate", object=given), fresh=number % 10 == 0)
            except aiohttp.ClientConnectorCertificateError as error:
                self.failures.append(f"not trusted: {error}")
                return
            except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                continue  # as a Service does: the next one
            if answer["response"]["allowed"] is not allowed:
                self.failures.append(f"wrong answer: {answer}")
            return
        self.failures.append("no replica answered")

    async def _ask(self, replica: Serving, body: dict[str, Any], *, fresh: bool) -> dict[str, Any]:
        url = f"https://localhost:{replica.port}/jobs/validate"
        if fresh:
            connector = aiohttp.TCPConnector(ssl=self._tls)
            async with aiohttp.ClientSession(connector=connector) as session, session.post(url, json=body) as response:
                return await response.json()
        kept = self._kept.get(replica.port)
        if kept is None:
            kept = self._kept[replica.port] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        async with kept.post(url, json=body, ssl=self._tls) as response:
            return await response.json()


async def _run(seconds: float, per_second: float, *, kill: bool) -> Callers:
    now = datetime.now(UTC)
    settings = replace(policy(), validity=policy().authority_validity)
    material = carry_out(Step.START_OVER, None, settings, now)
    async with serving(material=material) as first, serving(material=material) as second:
        callers = Callers([first, second], material.bundle)
        loop = asyncio.get_running_loop()
        start = loop.time()
        seen = []
        async with asyncio.TaskGroup() as group:
            number = 0
            older: list[asyncio.Task[None]] = []
            newer: list[asyncio.Task[None]] = []
            rounds = 9  # three replacements of three steps
            for turn in range(rounds):
                # A call does not take as long as the overlap: none that began two steps ago is still going on.
                await asyncio.gather(*older)
                older, newer = newer, []
                # each turn the clock jumps to the next step: the others have had the time in between to see the last one
                now += settings.authority_validity * 2 / 3 if turn % 3 == 0 else settings.overlap + timedelta(seconds=1)
                step = next_step(issue.inspect(material), settings, now, known_since=START)
                seen.append(step)
                material = carry_out(step, material, settings, now)
                _take(material, first, second, callers)
                if kill and turn == rounds // 2:
                    await second.kill()
                is_over = False
                while not is_over:
                    newer.append(group.create_task(callers.call(number)))
                    number += 1
                    await asyncio.sleep(max(0.0, start + number / per_second - loop.time()))
                    is_over = number % 2 == 0 and loop.time() >= start + seconds * (turn + 1) / rounds
    await callers.close()
    assert seen == [Step.ADD_AUTHORITY, Step.ISSUE, Step.DROP_AUTHORITIES] * 3
    return callers


def _take(material: Material, first: Serving, second: Serving, callers: Callers) -> None:
    """The steps reach the replicas and the callers one after the other; at either order everybody must get along."""
    first.tls.use(material.certificate, material.key)
    callers.trust(material.bundle)
    second.tls.use(material.certificate, material.key)


@pytest.mark.parametrize("kill", [False, True], ids=["two replicas", "one of two is killed"])
@pytest.mark.parametrize(("seconds", "per_second"), [(3.0, 150.0), pytest.param(60.0, 500.0, marks=pytest.mark.soak)])
async def test_no_review_fails_during_certificate_rotation_even_if_a_replica_is_killed(
    kill: bool, seconds: float, per_second: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The validity of certificates is judged by the real clock: they are made valid from long ago to far away.
    monkeypatch.setattr(issue, "CLOCK_SKEW", timedelta(days=4000))
    callers = await _run(seconds, per_second, kill=kill)
    print(f"{callers.calls} calls in {seconds:.0f} s")
    assert callers.failures == []
    assert callers.calls > 9  # at least one valid and one invalid object per step, however busy the machine is
