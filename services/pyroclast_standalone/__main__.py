"""The program `pyroclast`: starts a control plane on this machine and runs Jobs on it."""

from __future__ import annotations

from pyroclast import lean

lean.prepare()

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import NoReturn

from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import ConfigError
from pyroclast.runtime import logs
from pyroclast_standalone import control_plane, manifests
from pyroclast_standalone.directory import CommandError, DataDirectory
from pyroclast_standalone.nodes.processes.machine import find_machine

DOWN_SECONDS = 60.0
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments`, by default those of the process. Return the exit status."""
    logs.set_level("critical")  # the commands print errors themselves
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        return int(options.command(options))
    except (CommandError, ConfigError) as error:
        print(f"pyroclast: {error}", file=sys.stderr)
        return getattr(error, "status", 1)
    except KubeError as error:
        print(f"pyroclast: the API server could not be asked: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _up(options: argparse.Namespace) -> int:
    if options.detach:
        return _detach(options)
    return _run_until_stopped(_serve(_plane_options(options), purge=options.purge))


async def _serve(options: control_plane.Options, *, purge: bool) -> int:
    async with control_plane.running(options, _say) as plane:
        if options.machine:
            how = "under the accounts of those who submitted them" if options.multi_user else "as processes of this account"
            _say(f"this machine is the node {find_machine(len(os.sched_getaffinity(0)))}; pods run {how}")
        _say(f"the web page is at {plane.board}")
        _say(f"ready KUBECONFIG={plane.kubeconfig}")
        try:
            await plane.watch()
        finally:
            if purge:
                await plane.supervisor.stop()
                await control_plane.purge(plane.kubeconfig)
    return 0


def _detach(options: argparse.Namespace) -> int:
    """Start the same command in the background, and print its output until it is ready."""
    directory = _directory(options)
    asyncio.run(control_plane.check(_plane_options(options)))
    directory.prepare()
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    log = directory.logs / "pyroclast.log"
    with log.open("wb") as out:
        child = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-m", __package__, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    with log.open() as lines:
        while True:
            line = lines.readline()
            if not line:
                status = child.poll()
                if status is not None:
                    return status or 1
                time.sleep(0.05)
                continue
            print(line, end="", flush=True)
            if line.startswith("ready "):
                return 0


def _down(options: argparse.Namespace) -> int:
    directory = _directory(options)
    pid = directory.running_pid()
    if pid is None and options.kubeconfig is None:
        raise CommandError(f"--data-dir {directory.root}: no control plane runs here; `pyroclast up` starts one")
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + DOWN_SECONDS
        while directory.running_pid() is not None:
            if time.monotonic() > deadline:
                raise CommandError(f"pid {pid} did not stop within {DOWN_SECONDS:.0f} s")
            time.sleep(0.05)
        _say(f"stopped pid={pid}")
    if options.kubeconfig is not None:
        asyncio.run(control_plane.purge(options.kubeconfig))
        _say(f"removed everything of pyroclast from the cluster of {options.kubeconfig}")
    return 0


def _run(options: argparse.Namespace) -> int:
    objects = manifests.read(options.manifest)
    directory = _directory(options)
    return _run_until_stopped(_submit(options, directory, objects), stopped=INTERRUPTED)


async def _submit(options: argparse.Namespace, directory: DataDirectory, objects: list[manifests.Manifest]) -> int:
    from pyroclast_standalone import run  # noqa: PLC0415 - only this verb needs the records of all kinds
    from pyroclast_standalone.following import Display  # noqa: PLC0415 - see above

    display = Display()
    if options.kubeconfig is not None or directory.running_pid() is not None:
        kubeconfig = options.kubeconfig or directory.kubeconfig
        outcome = await run.submit_and_follow(kubeconfig, objects, display)
        display.say(f"To look at it: KUBECONFIG={kubeconfig} kubectl get {outcome.kinds}")
        return 0 if outcome.is_successful else 1
    display.say(f"starting a control plane, its data is in {directory.root}")
    async with control_plane.running(control_plane.Options(directory), display.say) as plane, asyncio.TaskGroup() as group:
        watching = group.create_task(plane.watch())
        outcome = await run.submit_and_follow(plane.kubeconfig, objects, display)
        watching.cancel()
    where = "" if directory.root == DataDirectory.default().root else f" --data-dir {directory.root}"
    display.say("The control plane is stopped, its objects are kept. To go on:")
    display.say(f"  {sys.argv[0]} up{where}")
    display.say(f"  KUBECONFIG={directory.kubeconfig} kubectl get {outcome.kinds}")
    return 0 if outcome.is_successful else 1


def _service(options: argparse.Namespace) -> int:
    from pyroclast_standalone import systemd  # noqa: PLC0415 - rarely used

    if options.action != "install":
        return systemd.uninstall(_say) if options.action == "uninstall" else systemd.status(_say)
    _plane_options(options)  # refuses flags that `up` refuses
    words = [word for word in sys.argv[2:] if word != "install"]
    paths = (options.data_dir, options.kubeconfig, options.audit_log)
    return systemd.install(systemd.flags(words, _directory(options).root, paths), _say)


def _user(options: argparse.Namespace) -> int:
    from pyroclast_standalone import users  # noqa: PLC0415 - rarely used

    if os.geteuid() != 0:
        raise CommandError("user: only root can write the kubeconfig of another user")
    work = users.add if options.action == "add" else users.remove
    return asyncio.run(work(_directory(options), options.name, _say))


def _crds(_options: argparse.Namespace) -> int:
    import yaml  # noqa: PLC0415 - generating CRDs imports the models of all kinds

    from pyroclast.api.crds import custom_resource_definitions  # noqa: PLC0415

    print(yaml.safe_dump_all(custom_resource_definitions(), sort_keys=False), end="")
    return 0


def _takeover(options: argparse.Namespace) -> int:
    from pyroclast_standalone.takeover import command  # noqa: PLC0415 - rarely used

    check = command.check if options.check else command.back if options.back else command.take_over
    work = command.print_values if options.output == "values" else check
    return asyncio.run(work(options.kubeconfig or _directory(options).kubeconfig, _say))


def _release(options: argparse.Namespace) -> int:
    from pyroclast_standalone.installation import release  # noqa: PLC0415 - rarely used

    return asyncio.run(release(options.kubeconfig or _directory(options).kubeconfig, _say))


def _run_until_stopped(work: Coroutine[object, object, int], *, stopped: int = 0) -> int:
    """Run `work` until it ends or a signal arrives.

    SIGTERM and SIGINT cancel `work`, so that everything it started is stopped. The exit status is then `stopped`.
    """

    async def guarded() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        for stop in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(stop, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return stopped
        except BaseExceptionGroup as group:
            raise _first(group) from None

    return asyncio.run(guarded())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to print: a CommandError if there is one."""
    told, _ = group.split(CommandError)
    error: BaseException = told or group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _say(line: str) -> None:
    print(line, flush=True)


def _directory(options: argparse.Namespace) -> DataDirectory:
    if options.data_dir is not None:
        return DataDirectory(options.data_dir)
    kubeconfig = options.kubeconfig
    return DataDirectory.of_cluster(kubeconfig) if kubeconfig is not None else DataDirectory.default()


def _plane_options(options: argparse.Namespace) -> control_plane.Options:
    nodes, mode = options.nodes, options.node_mode
    is_machine = nodes is None and options.kubeconfig is None and mode != "simulated"
    if nodes is None:
        nodes = 0 if options.kubeconfig is not None else 1 if is_machine else 4
    if options.multi_user and not (is_machine and os.geteuid() == 0):
        raise CommandError("--multi-user: run it as root, without --kubeconfig, --nodes and --node-mode=simulated", status=2)
    return control_plane.Options(
        _directory(options),
        options.kubeconfig,
        options.port,
        nodes,
        mode or ("process" if is_machine else "simulated"),
        options.node_prefix,
        options.audit_log,
        options.place_before_pods,
        tuple(options.node_resource),
        options.publish_native_groups,
        is_machine,
        options.multi_user,
        options.one_pod_without_group,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise an error of one line, without the usage text."""
        raise CommandError(f"{message}; see `{self.prog} --help`", status=2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pyroclast", description="A batch system for Kubernetes, on this machine or on a cluster of yours.")
    parser.add_argument("--version", action="version", version=f"pyroclast {_version()}")
    verbs = parser.add_subparsers(title="commands", required=True, parser_class=_Parser, metavar="COMMAND")

    up = verbs.add_parser("up", help="run a control plane, or only Pyroclast's services for an existing cluster")
    up.set_defaults(command=_up)
    _flags_of_up(up)
    up.add_argument("--detach", action="store_true", help="return when ready, and keep running in the background")
    up.add_argument("--purge", action="store_true", help="at the end, remove everything that was installed")

    service = verbs.add_parser("service", help="run `pyroclast up` by systemd, from the start of the machine")
    service.set_defaults(command=_service)
    service.add_argument("action", choices=("install", "uninstall", "status"), help="install remembers the flags after it")
    _flags_of_up(service)

    user = verbs.add_parser("user", help="let a user of this machine submit Jobs (see `pyroclast up --multi-user`)")
    user.set_defaults(command=_user)
    user.add_argument("action", choices=("add", "remove"))
    user.add_argument("name", metavar="NAME", help="the name of the account")
    _where(user)
    _rest_of_the_commands(verbs)
    return parser


def _flags_of_up(up: argparse.ArgumentParser) -> None:
    _where(up)
    up.add_argument(
        "--port",
        type=_port,
        default=0,
        metavar="N",
        help="port of the embedded API server (default: the port of the last start, otherwise any free port)",
    )
    up.add_argument(
        "--nodes",
        type=_count,
        metavar="N",
        help="so many simulated nodes (default: one node that is this machine, and none with --kubeconfig)",
    )
    up.add_argument(
        "--node-mode",
        choices=("simulated", "process"),
        help="simulate pods, or run their commands as local processes (default: process on this machine, simulated with --nodes)",
    )
    up.add_argument("--node-prefix", default="node-", metavar="TEXT", help="prefix of node names; a number from 0 follows")
    up.add_argument(
        "--node-resource",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=N",
        help="further resource of each node, such as nvidia.com/gpu=8; may be repeated",
    )
    up.add_argument(
        "--audit-log", type=Path, metavar="FILE", help="file for a JSON line about each request to the embedded API server"
    )
    up.add_argument(
        "--place-before-pods",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="place simple gangs before their pods exist, with one write for each pod; without, bind each pod as Volcano does",
    )
    up.add_argument(
        "--one-pod-without-group", action="store_true", help="create no PodGroup for a Job of one pod: at most four writes for it"
    )
    up.add_argument(
        "--publish-native-groups",
        action="store_true",
        help="also show the gang of each Job as a PodGroup of scheduling.k8s.io, if the cluster serves that kind",
    )
    up.add_argument(
        "--multi-user",
        action="store_true",
        help="users of this machine are users of the cluster: their pods run under their accounts; needs root",
    )


def _rest_of_the_commands(verbs: argparse._SubParsersAction[_Parser]) -> None:
    run = verbs.add_parser("run", help="submit manifests and follow the objects to their end")
    run.set_defaults(command=_run)
    _where(run)
    run.add_argument("manifest", nargs="+", type=Path, metavar="MANIFEST", help="file or folder, YAML or JSON")

    down = verbs.add_parser("down", help="stop a control plane that runs in the background")
    down.set_defaults(command=_down)
    _where(down)

    takeover = verbs.add_parser("takeover", help="stop an installed Volcano, so that Pyroclast can replace it")
    takeover.set_defaults(command=_takeover)
    _where(takeover)
    only = takeover.add_mutually_exclusive_group()
    only.add_argument(
        "--check", action="store_true", help="only report the effect on each part; exit status 1 if something would be lost"
    )
    only.add_argument("--back", action="store_true", help="start Volcano again, as it was")
    takeover.add_argument(
        "-o",
        "--output",
        choices=("table", "values"),
        default="table",
        help="values: only print the values for our chart that carry the settings over (default: table)",
    )

    release = verbs.add_parser("release", help="after helm uninstall: remove Pyroclast's finalizers from flows and HyperJobs")
    release.set_defaults(command=_release)
    _where(release)

    crds = verbs.add_parser("crds", help="print the CustomResourceDefinitions")
    crds.set_defaults(command=_crds)


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help=f"where data is kept (default: {DataDirectory.default().root})"
    )
    parser.add_argument(
        "--kubeconfig", type=_file, metavar="FILE", help="an existing cluster, instead of the embedded control plane"
    )


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 0 to 65535, 0 for any free one")
    return int(text)


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes; give 0 or more")
    return int(text)


def _pair(text: str) -> str:
    name, _, amount = text.partition("=")
    if not name or not amount:
        raise argparse.ArgumentTypeError(f"{text!r} is no resource; give NAME=N, as nvidia.com/gpu=8")
    return text


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file; give the path of a kubeconfig")
    return path


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return version("pyroclast")


if __name__ == "__main__":
    sys.exit(main())
