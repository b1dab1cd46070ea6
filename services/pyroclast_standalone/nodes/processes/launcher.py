"""Starts shims: writes the specification of a container, and detects how this machine can isolate mounts and host names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.processes.layout import Layout, path_of
from pyroclast_standalone.nodes.runtime import Workload

_SHIM = Path(__file__).with_name("shim.py")
_LONGEST_HOSTNAME = 63


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts the containers of one data directory.

    Attributes:
        layout: the paths of their files.
        server: the URL of the API server, for the variables of pods.
        isolation: the result of `find_isolation`.
    """

    layout: Layout
    server: str
    isolation: str

    def launch(self, pod: records.Pod, container: records.Container, work: Workload, folder: Path) -> subprocess.Popen[bytes]:
        """Start the shim of a container, with its files in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "spec"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._specification(pod, container, work, folder), file)
        command = [sys.executable, "-I", "-S", str(_SHIM), str(path)]
        with (folder / "shim.log").open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - this mode runs the commands of pods
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def _specification(self, pod: records.Pod, container: records.Container, work: Workload, folder: Path) -> dict[str, Any]:
        mounts = self._mounts(pod, container, folder)
        variables = {"HOME": os.environ.get("HOME", "/"), **self._server_variables(), **work.variables}
        variables["PATH"] = work.variables["PATH"] + ":" + os.environ.get("PATH", "")
        argv, cwd = work.argv, container.working_dir
        if self.isolation == "none":
            argv = [_rewritten(word, mounts) for word in argv]
            variables = {name: _rewritten(value, mounts) for name, value in variables.items()}
            cwd = _rewritten(cwd, mounts)
        scratch = folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        return {
            "argv": argv,
            "env": variables,
            "cwd": cwd,
            "hostname": (pod.spec.hostname or pod.metadata.name)[:_LONGEST_HOSTNAME],
            "mounts": [[str(source), target] for source, target in mounts],
            "isolation": self.isolation,
            "variables": work.variables,  # for `variables_of`: those of the API alone, before paths were replaced
            "scratch": str(scratch),
            **{name: str(folder / name) for name in ("log", "state", "exit")},
        }

    def _mounts(self, pod: records.Pod, container: records.Container, folder: Path) -> list[tuple[Path, str]]:
        uid, termination_log = pod.metadata.uid, folder / "termination-log"
        termination_log.touch(0o666)
        volumes = {str(volume.get("name")): volume for volume in pod.spec.volumes}
        mounts = [(self.layout.pod(uid) / "hosts", "/etc/hosts"), (termination_log, path_of(container))]
        for mount in container.volume_mounts:
            source = self._source(pod, mount.name, volumes.get(mount.name, {}))
            source = source / mount.sub_path if mount.sub_path else source
            if not source.exists():
                source.mkdir(parents=True, exist_ok=True)
            mounts.append((source, mount.mount_path.rstrip("/") or "/"))
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
    variables: dict[str, str] = json.loads((folder / "spec").read_bytes())["variables"]
    return variables


def is_shim(pid: int) -> bool:
    """Return whether `pid` is still a shim, because process ids are reused."""
    try:
        return str(_SHIM).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
