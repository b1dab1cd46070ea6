"""The scheduler killed in the middle of its work: nothing is left half done."""

import asyncio
import contextlib
import sys


@contextlib.asynccontextmanager
async def process(cluster, *more):
    """The scheduler as a process of its own, with `more` flags; killed without warning at the end."""
    command = [
        sys.executable,
        "-m",
        "pyroclast_scheduler",
        "--kubeconfig",
        str(cluster.server.kubeconfig),
        "--leader-elect=false",
        *more,
    ]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def test_no_gang_stays_half_started_after_a_kill(cluster):
    for i in range(4):
        await cluster.node(f"n{i}", cpu="16")
    for i in range(12):
        await cluster.gang(f"g{i}", 4)

    async def some():
        return sum(map(bool, (await cluster.places()).values())) >= 3

    slowly = ("--kube-api-qps=20", "--kube-api-burst=1")  # so that the kill meets binds under way
    async with process(cluster, *slowly):
        await cluster.until(some)
    before = await cluster.places()
    assert not all(before.values())

    async def whole():
        return all((await cluster.places()).values())

    async with process(cluster):
        await cluster.until(whole)
    after = await cluster.places()
    assert before.items() - {(name, None) for name in before} <= after.items()  # what was bound stays where it was
