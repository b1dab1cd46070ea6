"""One Lease: acquiring, renewing and releasing it. A renewal is hedged: sent again while its first attempt is open."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from pyroclast.api.types import LEASES, Key
from pyroclast.kube.basics.deadline import Deadline, loop_time
from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.http.client import Client, Json
from pyroclast.kube.lease.record import LeaseView, Watcher, asked_for, held_by, released

log = structlog.get_logger()

T = TypeVar("T")


async def first_answer(ask: Callable[[], Coroutine[Any, Any, T]], patience: float, most: int) -> tuple[float, T]:
    """Return the first response to up to `most` equal requests, and when its request began (by the loop's clock).

    The next request begins when the earlier requests have had no response for `patience` seconds, so that a hanging request
    delays nobody. An earlier request continues, since a new connection would cost a busy server more. Sending the request twice
    must do no harm. The first response cancels the other requests. Raises KubeError: all requests failed. An error sent by the
    server takes precedence over a missing response.
    """
    loop = asyncio.get_running_loop()
    began: dict[asyncio.Task[T], float] = {}
    failures: list[BaseException] = []
    try:
        while True:
            if not failures and len(began) < most:
                began[loop.create_task(ask())] = loop.time()
            timeout = patience if not failures and len(began) < most else None
            done, _ = await asyncio.wait(began, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    return began[task], task.result()
                failures.append(error)
                del began[task]
            if not began:
                raise min(failures, key=lambda error: isinstance(error, ConnectionFailed) or not isinstance(error, KubeError))
    finally:
        for task in began:
            task.cancel()
        await asyncio.gather(*began, return_exceptions=True)


RELEASE_SECONDS: Final = 3.0

LOOKS: Final = (0.4, 0.5)
"""Shortest and longest pause between two reads of a Lease that another replica holds, as fractions of the retry period.

The longest pause bounds the time between a release and the next leader.
"""
ATTEMPTS_PER_DEADLINE: Final = 3  # so that one hanging request does not lose the Lease
HURRY: Final = 4  # factor by which retries of a failed renewal are faster than renewals


class LeaseLost(Exception):
    """Another replica may have taken over; the work under the Lease was stopped."""


class HandedOver(Exception):
    """Another replica asked for the Lease and gets it after the work has stopped."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The times of a Lease, in seconds.

    Attributes:
        duration: how long other replicas wait after the last renewal before they take over.
        renew_deadline: how long after its last renewal the holder stops by itself. The difference to `duration` is the time for
            stopping.
        retry_period: the time between two renewals, and between two reads of a Lease that another replica holds.
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
    """One Lease, from the view of one identity. `observed`: the holder at the last read; empty for none.

    `annotations`: the annotations that the holder sets on the Lease.
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
        self._may_name_us = False
        self._handed_to = ""
        self._complaint = ""

    @property
    def uid(self) -> str:
        """The UID of the Lease object, as last read or written; empty when unknown."""
        return str((self._lease.body.get("metadata") or {}).get("uid") or "")

    async def acquire(self, should_ask: Callable[[], bool]) -> None:
        """Return as soon as this identity holds the Lease. While another replica holds it, ask that replica for it if
        `should_ask` is true.
        """
        self._handed_to = ""
        while not await self._try_to_take(should_ask):
            await asyncio.sleep(self._timing.retry_period * random.uniform(*LOOKS))  # noqa: S311 - not a secret

    async def keep(self, may_hand_over: Callable[[str], bool]) -> None:
        """Renew the Lease forever.

        Raises:
            LeaseLost: the Lease could not be renewed in time, or another replica holds it.
            HandedOver: another replica asked for the Lease, and `may_hand_over` agreed.
        """
        pause = self._timing.retry_period
        while True:
            await asyncio.sleep(min(pause, max(self._left(), 0.0)))
            if self._left() <= 0:  # also after the process was suspended: what happened meanwhile is unknown
                raise LeaseLost(f"lease {self.key}: not renewed for {self._timing.renew_deadline:g} s")
            if await self._renew(may_hand_over):
                # a slow response has already taken a part of the pause
                pause = max(0.0, self._renewed + self._timing.retry_period - loop_time())
            else:
                pause = self._timing.retry_period / HURRY

    def closed_because(self) -> str | None:
        """Return why no write may begin under this Lease; None while the Lease is certainly held."""
        if self._left() > 0:
            return None
        return f"lease {self.key} was not renewed for {self._timing.renew_deadline:g} s, another may lead"

    async def release(self) -> None:
        """Release the Lease, so that nobody need wait for its expiry; errors are only logged.

        A Lease that could not be renewed in time is released too, as long as it names this identity. So a program that lost it
        in an outage leads again as soon as it has restarted.
        """
        if not self._may_name_us:
            return
        self._renewed, self._may_name_us = float("-inf"), False
        try:
            try:
                await self._update(released(self._lease, self._now(), self._handed_to), RELEASE_SECONDS)
            except Conflict:  # another replica has just asked for the Lease
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
            return False  # another replica was faster
        except KubeError as error:
            if str(error) != self._complaint:  # once per reason, because this may continue for long
                self._complaint = str(error)
                log.warning("lease.unavailable", lease=str(self.key), error=self._complaint)
            return False
        self._renewed, self._may_name_us = began, True
        self._complaint = ""
        return True

    async def _renew(self, may_hand_over: Callable[[str], bool]) -> bool:
        """Renew once; return whether that succeeded. After a transient error, the next renewal tries again."""
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
        """Handle a Lease that was written since the last renewal.

        The writer may be this replica, in a renewal whose response was lost, or a replica that asks for the Lease.
        """
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
        self._renewed, self._may_name_us = float("-inf"), False
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
        said = self._annotations
        return held_by(lease, self._identity, self._timing.duration, self._now(), self._handed_to, said=said)

    def _take_answer(self, answer: Json) -> None:
        self._lease = LeaseView.of(answer)
        self.observed = self._lease.holder

    async def _update(self, body: Json, seconds: float) -> Json:
        return await _within(seconds, partial(self._client.update, LEASES, body))

    def _patience(self) -> float:
        """Return the seconds for one request: several requests fit before the deadline, and none continues after it."""
        one, left = self._timing.renew_deadline / ATTEMPTS_PER_DEADLINE, self._left()
        return min(one, left) if left > 0 else one

    def _left(self) -> float:
        """Return the seconds until the holder must stop by itself."""
        return self._renewed + self._timing.renew_deadline - loop_time()


async def _within(seconds: float, request: Callable[..., Awaitable[Json]]) -> Json:
    """Return the response to `request` within `seconds`, whatever delays it in this process or on the network.

    Raises KubeError: ConnectionFailed when there is no response in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await request(deadline=Deadline.after(seconds))
    except TimeoutError:
        raise ConnectionFailed(f"no answer within {seconds:.1f} s") from None
