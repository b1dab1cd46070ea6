"""Starts shims: writes the specification of a container, and detects how this machine can isolate mounts and host names."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.attaching import Streams
from pyroclast_standalone.nodes.processes.layout import Layout, path_of
from pyroclast_standalone.nodes.processes.limits import Amounts, Groups
from pyroclast_standalone.nodes.processes.machine import Gpu
from pyroclast_standalone.nodes.processes.submitters import Account
from pyroclast_standalone.nodes.runtime import Workload

_SHIM = Path(__file__).with_name("shim.py")
_LONGEST_HOSTNAME = 63


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets of this machine, in addition to its files.

    Attributes:
        account: the account under which it runs. None for that of this process.
        gpus: its GPUs. None if the node does not allocate any, so that the container sees all.
        denied: the GPUs that it cannot open.
        group: the name of its control group. It belongs to one start of the container, or is joined by a probe or a hook.
        is_owner: whether the group ends with this process.
    """

    account: Account | None = None
    gpus: tuple[Gpu, ...] | None = None
    denied: tuple[Gpu, ...] = ()
    group: str = ""
    is_owner: bool = True

    @property
    def variables(self) -> dict[str, str]:
        """The variable for the GPUs, which a container cannot set itself."""
        return {} if self.gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(gpu.identity for gpu in self.gpus)}


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts the containers of one data directory.

    Attributes:
        layout: the paths of their files.
        server: the URL of the API server, for the variables of pods.
        isolation: the result of `find_isolation`.
        groups: where control groups can be made. None where limits are not enforced.
    """

    layout: Layout
    server: str
    isolation: str
    groups: Groups | None

    def launch(
        self,
        pod: records.Pod,
        container: records.Container,
        work: Workload,
        folder: Path,
        grant: Grant,
        *,
        streams: Streams | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start the shim of a container, with its files in `folder`; or of a command in it, with `streams` in place of a log."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "spec"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            attached = None if streams is None else "terminal" if streams.is_terminal else "pipes"
            marshal.dump({**self._specification(pod, container, work, folder, grant), "attached": attached}, file)
        command = [sys.executable, "-I", "-S", str(_SHIM), str(path)]
        if streams is not None:
            stdin, stdout, stderr = streams.child
            return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)  # noqa: S603 - as below
        with (folder / "shim.log").open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - this mode runs the commands of pods
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def _specification(
        self, pod: records.Pod, container: records.Container, work: Workload, folder: Path, grant: Grant
    ) -> dict[str, Any]:
        mounts = self._mounts(pod, container, folder, grant)
        amounts = Amounts.of(container)
        threads = {} if amounts.threads is None else {"OMP_NUM_THREADS": str(amounts.threads)}
        home = grant.account.variables if grant.account else {"HOME": os.environ.get("HOME", "/")}
        variables = {**home, **threads, **self._server_variables(), **work.variables, **grant.variables}
        variables["PATH"] = work.variables["PATH"] + ":" + os.environ.get("PATH", "")
        argv, cwd = work.argv, container.working_dir
        if self.isolation == "none":
            plain = [(Path(source), target) for source, target, _ in mounts]
            argv = [_rewritten(word, plain) for word in argv]
            variables = {name: _rewritten(value, plain) for name, value in variables.items()}
            cwd = _rewritten(cwd, plain)
        scratch = folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        return {
            "argv": argv,
            "env": variables | ({"VC_SIGNAL_BY": "node"} if "VC_SIGNAL" in variables else {}),
            "cwd": cwd,
            "hostname": (pod.spec.hostname or pod.metadata.name)[:_LONGEST_HOSTNAME],
            "mounts": mounts,
            "account": grant.account and [grant.account.uid, grant.account.gid, grant.account.groups],
            **self._limits(amounts, grant),
            "isolation": self.isolation,
            "variables": work.variables,  # for `variables_of`: those of the API alone, before paths were replaced
            "scratch": str(scratch),
            **{name: str(folder / name) for name in ("log", "state", "exit")},
        }

    def _limits(self, amounts: Amounts, grant: Grant) -> dict[str, Any]:
        """Return the part of the specification by which the shim enforces limits; see `limits`."""
        if self.groups is None:
            return {"groups": []}
        groups = self.groups.make(grant.group, amounts) if grant.group else []
        return {
            "groups": [str(group) for group in groups],
            "owns_groups": grant.is_owner,
            "memory_limit": amounts.memory_limit if self.groups.memory is None else None,
            "cpus": amounts.processors if self.groups.cpu is None else None,
        }

    def _mounts(
        self, pod: records.Pod, container: records.Container, folder: Path, grant: Grant
    ) -> list[tuple[str, str, str | None]]:
        """Return the mounts: source, target, and, for another account, a path below the source that this account must reach.

        This process could reach every path. So the shim resolves what a user has chosen, and makes it, as that user.
        """
        uid, termination_log = pod.metadata.uid, folder / "termination-log"
        termination_log.touch(0o666)
        _give(termination_log, grant.account)
        volumes = {str(volume.get("name")): volume for volume in pod.spec.volumes}
        mounts: list[tuple[str, str, str | None]] = [
            (str(self.layout.pod(uid) / "hosts"), "/etc/hosts", None),
            (str(termination_log), path_of(container), None),
        ]
        for mount in container.volume_mounts:
            volume = volumes.get(mount.name, {})
            source, below = self._source(pod, mount.name, volume), mount.sub_path
            if "hostPath" in volume and grant.account is not None:
                source, below = Path("/"), str(source / below).lstrip("/")
            elif grant.account is None and below:
                source, below = source / below, ""
            if not source.exists():
                source.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # no user reaches its neighbours by `..`
                source.mkdir(exist_ok=True)
                _give(source, grant.account)
            mounts.append((str(source), mount.mount_path.rstrip("/") or "/", below or None))
        if grant.denied:
            closed = self.layout.root / "closed"
            closed.touch(0o000)
            mounts += [(str(closed), gpu.device, None) for gpu in grant.denied if Path(gpu.device).exists()]
        return mounts

    def _source(self, pod: records.Pod, name: str, volume: Mapping[str, Any]) -> Path:
        """Return the folder or file on this machine for a volume."""
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            return self.layout.claim(pod.metadata.namespace, claim)
        return self.layout.volume(pod.metadata.uid, name)

    def _server_variables(self) -> dict[str, str]:
        host, _, port = self.server.removeprefix("https://").removeprefix("http://").partition("/")[0].rpartition(":")
        return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "KUBERNETES_SERVICE_PORT_HTTPS": port}


def find_isolation() -> str:
    """Return how processes can be isolated here: as `root`, in a `user` namespace, or not at all (`none`)."""
    if os.geteuid() == 0 and _can("unshare", "-mu", "true"):
        return "root"
    return "user" if _can("unshare", "-rmu", "true") else "none"


def _give(path: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _can(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0  # noqa: S603 - constant


def _rewritten(text: str, mounts: Sequence[tuple[Path, str]]) -> str:
    for source, target in sorted(mounts, key=lambda mount: -len(mount[1])):
        if target not in ("/", "/etc/hosts"):
            text = text.replace(target, str(source))
    return text


def variables_of(folder: Path) -> dict[str, str]:
    """Return the variables with which the container of this run folder was started. Its objects may be gone since."""
    variables: dict[str, str] = marshal.loads((folder / "spec").read_bytes())["variables"]  # noqa: S302 - `launch` wrote it
    return variables


def is_shim(pid: int) -> bool:
    """Return whether `pid` is still a shim, because process ids are reused."""
    try:
        return str(_SHIM).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
