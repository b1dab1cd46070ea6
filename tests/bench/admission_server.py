"""The webhook server as it runs in the service, over TLS, with a fixed set of queues instead of an API server.

`python -m tests.bench.admission_server` prints `PORT` and the CA, and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from prometheus_client import CollectorRegistry

from pyroclast.api.types import QUEUES
from pyroclast.kube.http.client import Client
from pyroclast.rules.lookups import FlowView, QueueView
from pyroclast.runtime import supervisor
from pyroclast.runtime.listener import Listener
from pyroclast.runtime.tls import ServingTls
from pyroclast_admission.authorization import QueueUse
from pyroclast_admission.certificates.issue import Material, carry_out
from pyroclast_admission.certificates.plan import Policy, Step
from pyroclast_admission.engine import Engine, Fetch, MayUse, Overload, ReviewMetrics
from pyroclast_admission.handlers import WEBHOOKS
from pyroclast_admission.known import Known, Options
from pyroclast_admission.lookup import Doubt, View
from pyroclast_admission.review import Answer, Review
from pyroclast_admission.server import WebhookServer


class FixedQueues:
    """Queues that do not change."""

    def __init__(self, *queues: QueueView) -> None:
        self._queues = {queue.name: queue for queue in queues}

    def get(self, name: str) -> QueueView | None:
        return self._queues.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        return [queue for _, queue in sorted(self._queues.items()) if queue.parent == name]

    def all(self) -> Sequence[QueueView]:
        return list(self._queues.values())


class FixedFlows:
    """Flows that do not change, by template."""

    def __init__(self, **flows: Sequence[FlowView]) -> None:
        self._flows = flows

    def __call__(self, namespace: str, template: str) -> Sequence[FlowView]:
        return self._flows.get(template, ())

    def named(self, name: str) -> FlowView | None:
        return next((flow for flows in self._flows.values() for flow in flows if flow.name == name), None)


def known(*queues: QueueView, **changes: Any) -> Known:
    """What webhooks know of a cluster with these queues besides `root` and `default`."""
    all_queues = FixedQueues(QueueView("root", state="Open"), QueueView("default", "root", "Open"), *queues)
    defaults: dict[str, Any] = {
        "queues": all_queues,
        "flows": FixedFlows(),
        "annotations_of": lambda _: {},
        "options": Options(),
        "time_zones": frozenset({"UTC", "Etc/UTC", "Pacific/Honolulu", "America/New_York", "Europe/Berlin"}),
    }
    return Known(**{**defaults, **changes})


async def everybody(_: Review) -> Answer | None:
    """Let every user do everything."""
    return None


def reader(state: Known) -> Fetch:
    """Reads what is in `state`: the API server has nothing else."""

    async def read(doubt: Doubt) -> View | None:
        kind, key = doubt
        assert isinstance(state.flows, FixedFlows)
        return state.queues.get(key.name) if kind is QUEUES else state.flows.named(key.name)

    return read


def policy() -> Policy:
    """Certificates for a server on this machine."""
    return Policy(frozenset({"localhost", "127.0.0.1"}))


@dataclass(slots=True)
class Serving:
    """A running server."""

    port: int
    tls: ServingTls
    material: Material
    engine: Engine
    overload: Overload
    _listener: Listener

    async def kill(self) -> None:
        """Be gone at once, as after SIGKILL: nothing is answered any more, every connection breaks."""
        self._listener.abort()


@asynccontextmanager
async def serving(
    state: Known | None = None,
    *,
    material: Material | None = None,
    may_use: MayUse | None = None,
    client_ca: bytes = b"",
    client_names: frozenset[str] = frozenset(),
) -> AsyncIterator[Serving]:
    """The webhook server on a free port of this machine."""
    state = state or known()
    material = material or carry_out(Step.START_OVER, None, policy(), datetime.now(UTC))
    tls = ServingTls()
    if client_ca:
        tls.require_clients(client_ca)
    tls.use(material.certificate, material.key)

    overload, metrics = Overload(), ReviewMetrics(CollectorRegistry())
    engine = Engine(
        WEBHOOKS, lambda: state, reader(state), authorize=everybody, may_use=may_use, overload=overload, metrics=metrics
    )
    server = WebhookServer(engine, metrics, tls.context, client_names=client_names)
    await server.start("127.0.0.1", 0)
    try:
        yield Serving(server.port, tls, material, engine, overload, server.listener)
    finally:
        await server.stop()


class _Rights:
    """An API server that allows everything, 2 ms after it is asked."""

    async def request(self, *_: str, **__: object) -> bytes:
        await asyncio.sleep(0.002)
        return b'{"status": {"allowed": true}}'


async def _main() -> None:
    async with serving(may_use=QueueUse(cast(Client, _Rights())).refusal) as server:
        supervisor.freeze_loaded()
        print(server.port, base64.b64encode(server.material.bundle).decode(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    import structlog
    import uvloop

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    uvloop.run(_main())
