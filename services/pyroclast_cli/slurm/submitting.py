"""The commands `sbatch`, `srun`, `salloc`, `vcctl run` and `vcctl shell`: they create a Job, and some follow it to its end."""

from __future__ import annotations

import asyncio
import getpass
import io
import os
import secrets
import shutil
import signal
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from pyroclast.api import keys
from pyroclast.api.types import JOBS, PODS, SECRETS, Key
from pyroclast.kube.basics.errors import Forbidden, KubeError, NotFound
from pyroclast.kube.http.node_facts import GPU_PRODUCT, node_facts
from pyroclast.views.jobs import phase_of
from pyroclast_cli.flags import Context, Failure, Value, connected
from pyroclast_cli.slurm.jobs import FILES, MOST_BYTES, Place, Submission, Work, submission
from pyroclast_cli.slurm.options import Values, command_line, options, options_of, script_values
from pyroclast_cli.tree import INTERRUPTED, RawLeaf
from pyroclast_cli.views import logs

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client

PERIOD: Final = 0.5
PATIENCE: Final = 2.0  # seconds before a waiting Job is announced
ALPHABET: Final = "23456789bcdfghjkmnpqrstvwxz"  # no vowels, as the API server's generateName
FINAL: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
CLEAN: Final = 0


def say(text: str) -> None:
    """Print a line for the user beside the output of the Job."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


async def _sbatch(context: Context) -> int:
    given, rest = command_line(context.arguments, "sbatch", "SCRIPT [ARGUMENTS]")
    if "wrap" in given:
        if rest:
            raise Failure(f'--wrap takes the place of a script; "{rest[0]}" is another')
        work, of_script = Work(f"#!/bin/sh\n{given['wrap'][-1]}\n"), {}
    else:
        script = _script(rest[0] if rest else "-")
        of_script = script_values(script, options_of("sbatch"))
        work = Work(script, tuple(rest[1:]), rest[0] if rest else "stdin")
    given = _without({name: of_script.get(name, []) + given.get(name, []) for name in {**of_script, **given}})
    return await _submitted(context, "sbatch", given, work)


def _script(file: str) -> str:
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1) if file == "-" else Path(file).read_bytes()
        return content.decode()
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{file}: is no text, so no script: {error.reason}; a program is started by srun") from error


def _without(given: Values) -> Values:
    left_out = {name.strip().removeprefix("--") for text in given.get("leave-out", ()) for name in text.split(",")}
    if unknown := left_out - {each.name for each in options()}:
        raise Failure(f"--leave-out: there is no option --{min(unknown)}")
    return {name: texts for name, texts in given.items() if name not in left_out}


async def _srun(context: Context, *, name: str) -> int:
    given, words = command_line(context.arguments, "srun", "[--] COMMAND [ARGUMENTS]", name)
    given = _without(given)
    if name in {"salloc", "shell"}:
        given["pty"] = [""]
        words = words or ["sh", "-c", "command -v bash > /dev/null && exec bash; exec sh"]
    if not words:
        raise Failure(f"name a command: {name} [OPTIONS] COMMAND")
    if "pty" in given and not sys.stdin.isatty() and "dry-run" not in given:
        raise Failure("--pty needs a terminal: standard input is none")
    return await _submitted(context, "srun", given, Work(words=tuple(words)))


async def _submitted(context: Context, command: str, given: Values, work: Work) -> int:
    place = here()
    made = submission(command, given, work, place)
    if "dry-run" in given:
        _show(made)
        return 0
    contexts, kubeconfig = (given.get(name, [""])[-1] for name in ("clusters", "kubeconfig"))
    async with connected(kubeconfig, "", contexts) as client:
        context = replace(context, connection=client)
        place = await _looked_around(client, place, given, is_quiet="quiet" in given)
        if place.is_here and work.words and command == "srun":
            work = replace(work, words=(shutil.which(work.words[0]) or work.words[0], *work.words[1:]))
        if not place.is_here:
            place = replace(place, archive=archive(given, command))
        made = submission(command, given, work, place)
        for note in () if "quiet" in given else made.notes:
            say(f"note: {note}")
        key = await _create(client, made)
        if command == "sbatch":
            context.say(key.name if "parsable" in given else f"Submitted batch job {key.name}")
            if "wait" not in given:
                return 0
            sys.stdout.flush()
        if "pty" in given:
            return await _terminal(context, key, work.words)
        return await _attended(context, key, is_labelled="label" in given, prints=command == "srun")


def here() -> Place:
    """Return where the user is, with a new random end for the name of the Job."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in pods of some clusters
        user = str(os.getuid())
    return Place("".join(secrets.choice(ALPHABET) for _ in range(5)), user, str(Path.cwd()), os.environ)


def _show(made: Submission) -> None:
    sys.stdout.write(yaml.dump(made.job, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True))
    for note in made.notes:
        say(f"note: {note}")


def archive(given: Values, command: str) -> bytes:
    """Return the packed current folder, if it travels. A home folder, which has keys in it, only travels on demand."""
    travels = command == "srun" and not given.keys() & {"volume", "chdir"} and str(Path.cwd()) != os.path.expanduser("~")
    how = given.get("folder", ["copy" if travels else "none"])[-1]
    if how not in {"copy", "none"}:
        raise Failure(f'--folder: "{how}" is not copy or none')
    if how == "none":
        return b""
    total = 0

    def counted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal total
        if member.name in {"./.git", "./.venv"}:
            return None
        total += member.size
        if total > 50 * MOST_BYTES:
            raise Failure(_TOO_LARGE.format(Path.cwd(), f"more than {total:,} bytes"))
        return member

    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
            tar.add(".", filter=counted)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}; --folder=none submits without the folder") from error
    if packed.tell() > MOST_BYTES:
        raise Failure(_TOO_LARGE.format(Path.cwd(), f"{packed.tell():,} bytes when packed"))
    return packed.getvalue()


_TOO_LARGE: Final = (
    f"the folder {{}} has {{}}, and at most {MOST_BYTES:,} travel in a Secret: --folder=none submits without, "
    "--volume=CLAIM:PATH mounts a shared one"
)


async def _looked_around(client: Client, place: Place, given: Values, *, is_quiet: bool) -> Place:
    """Return the place with what the nodes say: whether they are this machine, and their types of GPUs."""
    wants_type = any(":" in text for name in ("gpus", "gpus-per-node", "gpus-per-task", "gres") for text in given.get(name, ()))
    try:
        facts = await node_facts(client, all_nodes=wants_type)
    except KubeError as error:
        if wants_type:
            say(f"note: the types of GPUs are not known ({error}); the type is taken as the whole label {GPU_PRODUCT}")
        return place
    if facts.is_simulated and not is_quiet:
        say("note: the nodes of this cluster only pretend to run commands; those of `pyroclast up` without --nodes run them")
    return replace(place, is_here=facts.is_here, products=facts.products)


async def _create(client: Client, made: Submission) -> Key:
    """Create the Secret, then the Job, and give the Secret to the Job. A refused Job leaves nothing behind."""
    namespace = made.job["metadata"].get("namespace") or client.config.namespace
    job = made.job
    if made.singleton:
        earlier, _ = await client.list(
            JOBS, namespace, label_selector=f"{keys.SLURM_NAME}={job['metadata']['labels'][keys.SLURM_NAME]}"
        )
        waits = [{"job": each["metadata"]["name"], "condition": "Ended"} for each in earlier if phase_of(each) not in FINAL]
        job["spec"]["after"] = [*job["spec"].get("after", ()), *waits]
    secret = await client.create(SECRETS, made.secret, namespace=namespace)
    held = Key(namespace, secret["metadata"]["name"])
    try:
        created = await client.create(JOBS, job, namespace=namespace, strict=True)
    except KubeError:
        await client.delete(SECRETS, held, uid=secret["metadata"]["uid"])
        raise
    from pyroclast.kube.http.client import PatchKind  # noqa: PLC0415 - loaded by `connected`

    metadata = created["metadata"]
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    await client.patch(SECRETS, held, {"metadata": {"ownerReferences": [owner]}}, PatchKind.MERGE)
    return Key(namespace, metadata["name"])


async def cancel(client: Client, key: Key) -> None:
    """End a Job by a Command, so that it stays with its log until its TTL is over."""
    from pyroclast.api.enums import Action  # noqa: PLC0415
    from pyroclast_cli.compatible.commands import issue  # noqa: PLC0415

    await issue(Context({}, connection=client), JOBS, key, Action.TERMINATE_JOB, namespace=key.namespace)


async def _attended(context: Context, key: Key, *, is_labelled: bool, prints: bool) -> int:
    """Follow a Job to its end. Ctrl-C asks. Return the exit code of the command."""
    values: dict[str, Value] = {"task": "", "failed": False, "max-pods": 1000, "timestamps": False, "plain": not is_labelled}
    following = replace(context, values=values)
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    is_cancelled = False
    try:
        async with asyncio.TaskGroup() as tasks:
            if prints:
                tasks.create_task(logs.follow(following, key, {"timestamps": "true"}))
            ended = tasks.create_task(_ended(context.client, key))
            while not ended.done():
                question = tasks.create_task(interrupted.wait())
                await asyncio.wait({ended, question}, return_when=asyncio.FIRST_COMPLETED)
                question.cancel()
                if interrupted.is_set():
                    interrupted.clear()
                    choice = await _asked(key, interrupted)
                    if choice == "leave":
                        raise _LeftError
                    if choice == "cancel":
                        say(f"cancelling {key.name}")
                        await cancel(context.client, key)
                        is_cancelled = True
    except BaseExceptionGroup as group:
        if group.subgroup(_LeftError) is None:
            raise group.exceptions[0] from None
        say(f"{key.name} goes on; vcctl logs -f {key.name} shows its lines, scancel {key.name} ends it")
        return INTERRUPTED
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    code = await _exit_code(context.client, key)
    return INTERRUPTED if is_cancelled else code


class _LeftError(Exception):
    """The user leaves the Job alone."""


async def _asked(key: Key, interrupted: asyncio.Event) -> str:
    """Ask whether to cancel, to leave or to go on. Without a terminal, and at a second Ctrl-C, cancel."""
    if not sys.stdin.isatty():
        return "cancel"
    sys.stderr.write(f"\ncancel {key.name}, leave it running, or stay? [c/l/S] ")
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[Any] = loop.create_future()
    loop.add_reader(0, lambda: None if line.done() else line.set_result(os.read(0, 256)))
    try:
        async with asyncio.TaskGroup() as tasks:
            again = tasks.create_task(interrupted.wait())
            await asyncio.wait([line, again], return_when=asyncio.FIRST_COMPLETED)
            again.cancel()
    finally:
        loop.remove_reader(0)
    answer = line.result().decode(errors="replace").strip().lower()[:1] if line.done() else "c"
    interrupted.clear()
    return {"c": "cancel", "l": "leave"}.get(answer, "stay")


async def _ended(client: Client, key: Key, *, until_running: bool = False) -> str:
    """Wait for the end of a Job, or until its pods run, and announce that it waits. Return its phase."""
    waited, announced = 0.0, False
    while True:
        try:
            job = await client.get(JOBS, key)
        except NotFound:
            raise Failure(f"Job {key} was deleted") from None
        phase = phase_of(job)
        if phase in FINAL or (until_running and phase == "Running"):
            return phase
        if announced and phase == "Running":
            say(f"job {key.name} has been allocated resources")
            announced, waited = False, float("-inf")
        if phase in {"", "Pending"} and waited >= PATIENCE and not announced:
            code = ((job.get("status") or {}).get("waiting") or {}).get("code", "")
            say(f"job {key.name} queued and waiting for resources" + (f" ({code}; vcctl explain {key.name})" if code else ""))
            announced = True
        waited += PERIOD
        await asyncio.sleep(PERIOD)


async def _exit_code(client: Client, key: Key) -> int:
    """Return the greatest exit code of the Job's containers; 1 if the Job failed otherwise."""
    job = await client.get(JOBS, key)
    if phase_of(job) == "Completed":
        return CLEAN
    pods, _ = await client.list(PODS, key.namespace, label_selector=f"{keys.JOB_NAME}={key.name}")
    codes = [
        int(each["state"]["terminated"].get("exitCode", 1))
        for pod in pods
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
        if "terminated" in (each.get("state") or {})
    ]
    state: Mapping[str, Any] = (job.get("status") or {}).get("state") or {}
    reason = ": ".join(each for each in (state.get("reason", ""), state.get("message", "")) if each)
    say(f"job {key.name} is {phase_of(job)}" + (f" ({reason})" if reason else ""))
    return max((code for code in codes if code), default=1)


async def _terminal(context: Context, key: Key, words: Sequence[str]) -> int:
    """Wait for the pod, open a terminal in it, and return the exit code of its command. The Job ends with the terminal."""
    from pyroclast_cli.slurm import terminal  # noqa: PLC0415 - loads aiohttp's client

    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    loop.add_signal_handler(signal.SIGINT, lambda: task.cancel() if task is not None else None)
    pod = Key(key.namespace, f"{key.name}-task-0")
    try:
        if await _ended(context.client, key, until_running=True) in FINAL:
            return await _exit_code(context.client, key)
        loop.remove_signal_handler(signal.SIGINT)
        return await terminal.opened(context.client, pod, "task", ["sh", f"{FILES}/launch", "terminal", *words])
    except (asyncio.CancelledError, KubeError) as error:
        await cancel(context.client, key)
        if isinstance(error, Forbidden):
            raise Failure(f"{error.message}; a terminal needs the right to create pods/exec") from error
        if isinstance(error, KubeError):
            raise
        say(f"cancelled {key.name}")
        return INTERRUPTED
    finally:
        loop.remove_signal_handler(signal.SIGINT)


SBATCH: Final = RawLeaf("sbatch", "submit a script of Slurm as a Job", _sbatch)
SRUN: Final = RawLeaf("srun", "run a command as a Job, as srun does", partial(_srun, name="srun"))
RUN: Final = RawLeaf("run", "run a command of this folder as a Job, and follow it", partial(_srun, name="run"))
SALLOC: Final = RawLeaf("salloc", "the same as shell", partial(_srun, name="salloc"))
SHELL: Final = RawLeaf("shell", "open a shell in a new pod, when it is its turn", partial(_srun, name="shell"))
