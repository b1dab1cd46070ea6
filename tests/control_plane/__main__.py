"""`python -m tests.control_plane build | up`: build the programs of a real control plane, or run one until stopped."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import signal
import sys
from pathlib import Path

from tests.control_plane import build
from tests.control_plane.real import NATIVE, PLAIN, real_control_plane


def main() -> int:
    arguments = _parser().parse_args()
    try:
        if arguments.command == "up":
            asyncio.run(_serve(arguments))
        else:
            build.build(arguments.names, arguments.kubernetes)
            print(*(build.program(name, arguments.kubernetes) for name in arguments.names), sep="\n")
    except build.GoMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build the programs that are not in the cache")
    building.add_argument("names", nargs="*", default=build.names())
    serving = commands.add_parser("up", help="run a control plane until SIGTERM or ^C")
    for command in (building, serving):
        command.add_argument("--kubernetes", choices=[build.PRESENT, build.NEXT], default=build.PRESENT, help="its version")
    serving.add_argument(
        "--workloads", action="store_true", help="serve its Workloads and PodGroups too; from 1.37 on, and off by default there"
    )
    serving.add_argument("--dir", type=Path, required=True, help="data, keys, logs and the kubeconfig go here")
    serving.add_argument("--services", action="store_true", help="run our services and simulated nodes too")
    serving.add_argument("--scheduler", action="store_true", help="run kube-scheduler too")
    serving.add_argument("--unsafe-no-fsync", action="store_true", help="faster; a power failure loses writes")
    return parser


async def _serve(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    flavour = dataclasses.replace(NATIVE if arguments.workloads else PLAIN, kubernetes=arguments.kubernetes)
    async with real_control_plane(
        arguments.dir, fsync=not arguments.unsafe_no_fsync, scheduler=arguments.scheduler, flavour=flavour
    ) as plane:
        for part in plane.parts:
            print(f"{part.name} pid={part.pid}", flush=True)
        if arguments.services:
            await _serve_with_services(arguments.dir, plane.kubeconfig, stop)
        else:
            print(f"ready KUBECONFIG={plane.kubeconfig}", flush=True)
            await stop.wait()


async def _serve_with_services(directory: Path, kubeconfig: Path, stop: asyncio.Event) -> None:
    """Our services and four simulated nodes beside it; they print their process ids and the `ready` line."""
    command = [
        "-m",
        "pyroclast_standalone",
        "up",
        "--kubeconfig",
        str(kubeconfig),
        "--data-dir",
        str(directory / "services"),
        "--nodes",
        "4",
    ]
    services = await asyncio.create_subprocess_exec(sys.executable, *command, start_new_session=True)
    stopped, ended = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(services.wait())
    await asyncio.wait({stopped, ended}, return_when=asyncio.FIRST_COMPLETED)
    if services.returncode is None:
        services.terminate()
    stopped.cancel()
    await ended


if __name__ == "__main__":
    sys.exit(main())
