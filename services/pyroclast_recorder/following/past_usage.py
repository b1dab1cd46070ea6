"""Past usage of queues, and its writer to their annotations, for scheduler plugins that use past usage."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

import structlog

from pyroclast.api import keys
from pyroclast.api.past_usage import PastUsage, written_past_usage
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.basics.errors import ApiError, KubeError, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import format_duration
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.facts.units import is_in_mebibytes

log = structlog.get_logger()


HALF_LIVES: Final = 10
"""The age in half-lives after which usage is ignored. At this age, usage has a thousandth of its weight."""

_DIGITS: Final = 2


class Used(NamedTuple):
    """The usage of a user in one interval. `begin`: the start of the interval. `amount`: amount × seconds."""

    begin: int
    queue: str
    user: str
    resource: str
    amount: int


def bin_seconds(half_life: float) -> int:
    """Return the seconds of an interval: an hour, or a day when the half-life is long enough for days."""
    return 3600 if half_life < 4 * 86_400 else 86_400


def past_usage(rows: Iterable[Used], now: int, half_life: float) -> dict[str, PastUsage]:
    """Return the average amounts that each queue and its users held, by queue. Users with the greatest usage come first.

    The average is over the whole past, and each second has the weight 2^(-age / half-life). A user who always held 8 GPUs has the
    average 8. A user who held 8 GPUs until one half-life ago has the average 4.
    """
    width = bin_seconds(half_life)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    of_users: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
    lifetime = half_life / math.log(2)
    for row in rows:
        middle = (row.begin + min(now, row.begin + width)) / 2
        part = row.amount * 2 ** (-max(0.0, now - middle) / half_life) / lifetime
        sums[row.queue][row.resource] += part
        of_users[row.queue][row.user][row.resource] += part
    text = format_duration(half_life)
    found = {}
    for queue, held in sums.items():
        users = sorted(of_users[queue].items(), key=lambda user: (-_size(user[1], held), user[0]))
        shown = {name: told for name, amounts in users if (told := _quantities(amounts))}
        found[queue] = PastUsage(half_life=text, held=_quantities(held), users=shown)
    return found


def _size(amounts: Mapping[str, float], whole: Mapping[str, float]) -> float:
    return max((amount / whole[name] for name, amount in amounts.items() if whole[name]), default=0.0)


def _quantities(amounts: Mapping[str, float]) -> dict[str, str]:
    """Return amounts as quantities with two significant digits, so that small changes cause no write."""
    found = {}
    for name, amount in sorted(amounts.items()):
        rounded = int(float(f"{amount:.{_DIGITS}g}"))
        if rounded > 0:
            found[name] = f"{rounded}Mi" if is_in_mebibytes(name) else f"{rounded}m"
    return found


SHORTEST_SECONDS: Final = 60.0
OF_A_HALF_LIFE: Final = 1 / 1000
"""The part of a half-life between two writes. The past usage hardly changes in this time."""


class PastUsageWriter:
    """Writes the annotation of each queue when the past usage has changed, at most once a minute.

    `half_life`: the age in seconds at which usage has half its weight.
    """

    def __init__(self, client: Client, database: Database, settle: Callable[[], Awaitable[None]], half_life: float) -> None:
        self._client, self._database, self._settle, self._half_life = client, database, settle, half_life

    async def run(self) -> None:
        """Write past usage at intervals, until cancelled."""
        while True:
            try:
                await self.write()
            except (KubeError, DatabaseUnavailable) as error:
                log.warning("recorder.past_usage_not_written", error=str(error))
            await asyncio.sleep(max(SHORTEST_SECONDS, self._half_life * OF_A_HALF_LIFE))

    async def write(self) -> int:
        """Bring the annotations of all queues up to date; return the number of written annotations."""
        await self._settle()
        now = int(self._client.now())
        since = now - int(HALF_LIVES * self._half_life)
        rows = await self._database.used_since(since, bin_seconds(self._half_life))
        found = await asyncio.to_thread(lambda: past_usage((Used(*row) for row in rows), now, self._half_life))
        nothing = PastUsage(half_life=format_duration(self._half_life))
        listed, _ = await self._client.list(QUEUES)
        written = 0
        for queue in listed:
            name, key = queue["metadata"]["name"], keys.QUEUE_PAST_USAGE
            text = written_past_usage(found.get(name, nothing))
            if (queue["metadata"].get("annotations") or {}).get(key) != text:
                written += await annotate(self._client, name, key, text, refused="recorder.past_usage_refused")
        return written


async def annotate(client: Client, queue: str, key: str, text: str, *, refused: str) -> bool:
    """Write `text` to the annotation `key` of a queue; return whether the annotation was written.

    A deleted queue needs no annotation. When the API server refuses the write, this is logged as the event `refused`, so that one
    queue does not prevent writes to other queues.
    """
    try:
        await client.patch(QUEUES, Key("", queue), {"metadata": {"annotations": {key: text}}}, PatchKind.MERGE)
    except NotFound:
        return False
    except ApiError as error:
        log.warning(refused, queue=queue, error=str(error))
        return False
    return True
