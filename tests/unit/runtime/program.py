"""A small service for the tests of the process shell; what it does is the value of --mode."""

from __future__ import annotations

import asyncio
import os
import sys

from pyroclast.api.records.pods import Pod
from pyroclast.api.types import PODS, Key
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.kube.watch.informer import Informer
from pyroclast.runtime.service import Service, run_service
from pyroclast.runtime.settings import ServiceSettings, parse


class Settings(ServiceSettings):
    mode: str = "wait"


async def main(service: Service) -> None:
    mode = service.settings.model_dump()["mode"]
    say = lambda *words: print(*words, flush=True)  # noqa: E731

    async def task(name: str, seconds: float = 1e9, stop: float = 0.0) -> None:
        try:
            await asyncio.sleep(seconds)
            if mode == "dies":
                raise ZeroDivisionError("by the test")
        finally:
            await asyncio.sleep(stop)
            say("stopped", name)

    match mode:
        case "wait":
            service.spawn("cache", task("cache"))
            service.spawn("worker", task("worker"))
            say("ready", os.getpid())
        case "returns":
            say("done")
        case "dies" | "ends":
            service.spawn("cache", task("cache"))
            service.spawn("worker", task("worker", 0.05))
        case "raises":
            raise RuntimeError("main failed")
        case "loses":
            raise LeaseLost("lease ns/lock: taken over by other")
        case "stubborn":
            service.spawn("worker", task("worker", stop=1e9))
            say("ready", os.getpid())
        case "watch":
            client = await service.client()
            service.record_events(client, "program")
            service.watch(Informer(client, PODS, Pod))
            await service.synced()
            say("synced")
        case "asks":
            client = await service.client()
            service.record_events(client, "program")
            service.watch(Informer(client, PODS, Pod), is_needed=False)
            await service.synced()
            say("synced")
        case "prepares":
            client = await service.client()
            say("prepares")
            await client.get(PODS, Key("ns", "p"))
            await service.synced()
            await service.forever()


if __name__ == "__main__":
    sys.exit(run_service("program", parse(Settings, sys.argv[1:], "program"), main))
