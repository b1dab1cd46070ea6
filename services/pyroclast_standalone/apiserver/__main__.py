"""The program `python -m pyroclast_standalone.apiserver`: serves a Kubernetes API from a directory."""

from __future__ import annotations

from pyroclast import lean

lean.prepare(logs=False)

import argparse
import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

from pyroclast_standalone.apiserver.app import serving
from pyroclast_standalone.apiserver.storage.persist import DamagedData, JournalFailed


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pyroclast-apiserver", description="A Kubernetes API server for one machine.")
    parser.add_argument("--data-dir", type=Path, required=True, help="where state, certificates and kubeconfig are kept")
    parser.add_argument("--port", type=int, default=6443, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--audit-log", type=Path, help="file to append audit events to")
    parser.add_argument("--in-memory", action="store_true", help="keep no state")
    parser.add_argument(
        "--scheduler", action="append", default=[], help="name of a scheduler that runs here (repeatable): others are warned of"
    )
    parser.add_argument(
        "--record-creators", action="store_true", help="write into each pod who created it, for nodes that run it as that user"
    )
    return parser.parse_args(argv)


async def _serve(arguments: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with serving(
        arguments.data_dir,
        port=arguments.port,
        in_memory=arguments.in_memory,
        audit_log=arguments.audit_log,
        schedulers=arguments.scheduler,
        records_creators=arguments.record_creators,
    ) as (_, url):
        gc.freeze()
        print(f"ready {url} KUBECONFIG={arguments.data_dir / 'kubeconfig'}", flush=True)
        await stopping.wait()


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal arrives. When the server cannot start or continue, print one line and return exit status 1."""
    arguments = _arguments(argv)
    try:
        import uvloop  # noqa: PLC0415 - optional

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    failures: list[str] = []
    try:
        with runner:
            runner.run(_serve(arguments))
    except* (DamagedData, JournalFailed) as group:
        failures += [str(error) for error in group.exceptions]
    except* OSError as group:
        failures += [_why(error, arguments.port) for error in group.exceptions]
    for failure in failures[:1]:
        print(f"pyroclast-apiserver: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _why(error: BaseException, port: int) -> str:
    if not isinstance(error, OSError):
        return str(error)
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot use {error.filename}: {reason}" if error.filename else f"cannot serve on port {port}: {reason}"


if __name__ == "__main__":
    sys.exit(main())
