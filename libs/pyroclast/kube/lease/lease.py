"""One Lease: taking it, keeping it, giving it back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from pyroclast.api.types import LEASES, Key
from pyroclast.kube.basics.deadline import Deadline, loop_time
from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.basics.hedge import first_answer
from pyroclast.kube.http.client import Client, Json
from pyroclast.kube.lease.record import LeaseView, Watcher, asked_for, held_by, released

__all__ = ["HandedOver", "Lease", "LeaseLost", "LeaseTiming"]

log = structlog.get_logger()

RELEASE_SECONDS: Final = 3.0

LOOKS: Final = (0.4, 0.5)
"""Pauses between two looks at a Lease that another holds, in retry periods: so long after a release the next one leads."""
ATTEMPTS_PER_DEADLINE: Final = 3  # so that one request that hangs does not cost the Lease
HURRY: Final = 4  # times as often as usual is a renewal that failed tried again


class LeaseLost(Exception):
    """Another replica may have taken over: the work was stopped."""


class HandedOver(Exception):
    """Another replica asked for the Lease and gets it when the work has stopped."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds.

    Attributes:
        duration: how long the others wait after our last renewal before they take over.
        renew_deadline: how long after it we stop by ourselves; less than `duration`, to leave time for stopping.
        retry_period: between two renewals, and between two looks at a Lease that another holds.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            raise ValueError(
                f"lease duration ({self.duration:g} s) must be longer than the renew deadline ({self.renew_deadline:g} s), "
                f"and that longer than the retry period ({self.retry_period:g} s)"
            )


class Lease:
    """One Lease object as one identity sees it. `observed` is who held it when it was last read.

    `annotations`: what its holder says on it.
    """

    def __init__(
        self,
        client: Client,
        key: Key,
        identity: str,
        timing: LeaseTiming,
        now: Callable[[], datetime],
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key
        self._annotations = annotations or {}
        self.observed = ""
        self._client = client
        self._identity = identity
        self._timing = timing
        self._now = now
        self._watcher = Watcher(timing.duration)
        self._lease = LeaseView({}, "", 0.0, 0, "")
        self._renewed = 0.0
        self._handed_to = ""
        self._complaint = ""

    @property
    def uid(self) -> str:
        """Of the object, as last read or written."""
        return str((self._lease.body.get("metadata") or {}).get("uid") or "")

    async def acquire(self, should_ask: Callable[[], bool]) -> None:
        """Return as soon as the Lease is ours; while another holds it, ask for it if `should_ask` says so."""
        self._handed_to = ""
        while not await self._try_to_take(should_ask):
            await asyncio.sleep(self._timing.retry_period * random.uniform(*LOOKS))  # noqa: S311 - not a secret

    async def keep(self, may_hand_over: Callable[[str], bool]) -> None:
        """Renew the Lease for ever.

        Raises:
            LeaseLost: it could not be renewed in time, or somebody else holds it.
            HandedOver: somebody asked for it, and `may_hand_over` agreed.
        """
        pause = self._timing.retry_period
        while True:
            await asyncio.sleep(min(pause, max(self._left(), 0.0)))
            if self._left() <= 0:  # or the process was stopped for a while: what happened meanwhile is unknown
                raise self._lost(f"not renewed for {self._timing.renew_deadline:g} s")
            if await self._renew(may_hand_over):
                pause = max(0.0, self._renewed + self._timing.retry_period - loop_time())  # a slow answer was waited for already
            else:
                pause = self._timing.retry_period / HURRY

    def closed_because(self) -> str | None:
        """Why no write may begin under this Lease; None while it is surely ours. A `Fence`."""
        if self._left() > 0:
            return None
        return f"lease {self.key} was not renewed for {self._timing.renew_deadline:g} s, another may lead"

    async def release(self) -> None:
        """Give the Lease back, so that another replica need not wait until it expires; best effort."""
        if self._left() <= 0:
            return
        self._renewed = float("-inf")
        try:
            try:
                await self._update(released(self._lease, self._now(), self._handed_to), RELEASE_SECONDS)
            except Conflict:  # somebody has just asked for it
                self._lease = await self._read()
                if self._lease.holder == self._identity:
                    await self._update(released(self._lease, self._now(), self._handed_to), RELEASE_SECONDS)
        except KubeError as error:
            log.warning("lease.not_released", lease=str(self.key), error=str(error))

    async def _try_to_take(self, should_ask: Callable[[], bool]) -> bool:
        began = loop_time()
        try:
            lease = await self._read()
            self.observed = lease.holder
            if not self._watcher.is_free(lease, self._identity, loop_time()):
                if lease.holder and not lease.wanted_by and should_ask():
                    await self._update(asked_for(lease, self._identity), self._patience())
                return False
            await self._write(lease)
        except Conflict:
            return False  # another was faster
        except KubeError as error:
            if str(error) != self._complaint:  # once per reason: this may go on for long
                self._complaint = str(error)
                log.warning("lease.unavailable", lease=str(self.key), error=self._complaint)
            return False
        self._renewed = began
        self._complaint = ""
        return True

    async def _renew(self, may_hand_over: Callable[[str], bool]) -> bool:
        """One renewal; whether it succeeded. Failures that may pass are left to the next."""
        body = self._held(self._lease)
        try:
            began, answer = await first_answer(lambda: self._update(body, self._left()), self._patience(), ATTEMPTS_PER_DEADLINE)
        except NotFound:
            raise self._lost("deleted by somebody") from None
        except Conflict:
            await self._resolve_conflict(may_hand_over)
            return False
        except KubeError as error:
            log.warning("lease.not_renewed", lease=str(self.key), error=str(error), seconds_left=round(self._left(), 1))
            return False
        self._take_answer(answer)
        self._renewed = began
        return True

    async def _resolve_conflict(self, may_hand_over: Callable[[str], bool]) -> None:
        """Somebody wrote the Lease: perhaps we ourselves, in a renewal whose answer was lost, or somebody who asks for it."""
        try:
            self._lease = await self._read()
        except KubeError as error:
            log.warning("lease.not_renewed", lease=str(self.key), error=str(error), seconds_left=round(self._left(), 1))
            return
        self.observed = self._lease.holder
        if self._lease.holder != self._identity:
            raise self._lost(f"taken over by {self._lease.holder}" if self._lease.holder else "given up by somebody else")
        if self._lease.wanted_by and may_hand_over(self._lease.wanted_by):
            self._handed_to = self._lease.wanted_by
            raise HandedOver

    def _lost(self, why: str) -> LeaseLost:
        self._renewed = float("-inf")  # there is nothing left to release
        return LeaseLost(f"lease {self.key}: {why}")

    async def _read(self) -> LeaseView:
        try:
            return LeaseView.of(await _within(self._patience(), partial(self._client.get, LEASES, self.key)))
        except NotFound:
            return LeaseView({}, "", 0.0, 0, "")

    async def _write(self, lease: LeaseView) -> None:
        body = self._held(lease)
        if lease.resource_version:
            answer = await self._update(body, self._patience())
        else:
            body |= {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
            body["metadata"] = {**body["metadata"], "namespace": self.key.namespace, "name": self.key.name}
            answer = await _within(self._patience(), partial(self._client.create, LEASES, body))
        self._take_answer(answer)

    def _held(self, lease: LeaseView) -> Json:
        """The Lease as we write it to take or to renew it."""
        said = self._annotations
        return held_by(lease, self._identity, self._timing.duration, self._now(), self._handed_to, said=said)

    def _take_answer(self, answer: Json) -> None:
        self._lease = LeaseView.of(answer)
        self.observed = self._lease.holder

    async def _update(self, body: Json, seconds: float) -> Json:
        return await _within(seconds, partial(self._client.update, LEASES, body))

    def _patience(self) -> float:
        """Seconds for one request: some must fit before the deadline, and none goes on after it."""
        one, left = self._timing.renew_deadline / ATTEMPTS_PER_DEADLINE, self._left()
        return min(one, left) if left > 0 else one

    def _left(self) -> float:
        """Seconds until we must stop by ourselves."""
        return self._renewed + self._timing.renew_deadline - loop_time()


async def _within(seconds: float, request: Callable[..., Awaitable[Json]]) -> Json:
    """The answer to `request` within so many seconds, whatever in this process or on the way holds it up.

    Raises:
        KubeError: ConnectionFailed when there is none by then.
    """
    try:
        async with asyncio.timeout(seconds):
            return await request(deadline=Deadline.after(seconds))
    except TimeoutError:
        raise ConnectionFailed(f"no answer within {seconds:.1f} s") from None
