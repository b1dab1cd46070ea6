"""Rules for the plugins of a Job, which must exist with the tasks that they name, and for its volumes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast.api.jobplugins import BUILT_IN, LONGEST_HOST_LIST, MOST_IN_VARIABLES
from pyroclast.resources import go_flags
from pyroclast.resources.go_flags import Flags
from pyroclast.rules.errors import invalid, required
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.values import Json, mapping, mappings, optional_integer, string_items, text
from pyroclast.rules.verdicts import Finding, broken, first_only, found

TWO_CLAIMS = (
    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
)


def check_volumes(volumes: Json, path: str) -> Sequence[Finding]:
    """Return all faults of the volumes at `path`; Volcano reports only the first."""
    return first_only(_check(volumes, path)) if volumes else ()


def volume_warnings(volumes: Json, path: str) -> list[str]:
    """Return warnings for volumes without a claim: each pod gets its own emptyDir, which is lost with the pod."""
    return [
        f"{path}[{index}]: no claim given, each pod gets an emptyDir"
        for index, volume in mappings(volumes)
        if not text(volume.get("volumeClaimName")) and not isinstance(volume.get("volumeClaim"), dict)
    ]


def _check(volumes: Json, path: str) -> Iterator[Finding]:
    mounted: set[str] = set()
    for index, volume in mappings(volumes):
        where = f"{path}[{index}]"
        mount, name = text(volume.get("mountPath")), text(volume.get("volumeClaimName"))
        if not mount:
            yield found(" mountPath is required;", required(f"{where}.mountPath", "mountPath is required"))
        elif mount in mounted:
            sentence = f"duplicated mountPath: {mount}"
            yield found(f" {sentence};", invalid(f"{where}.mountPath", mount, f"{sentence}; each volume needs its own"))
        mounted.add(mount)
        if name and isinstance(volume.get("volumeClaim"), dict):
            yield found(TWO_CLAIMS, invalid(f"{where}.volumeClaimName", name, TWO_CLAIMS))
        elif name and (problems := dns_subdomain(name)):
            yield broken(f"{where}.volumeClaimName", name, f"invalid VolumeClaimName {name} : [{' '.join(problems)}]")


_NO_MASTER: Final = "The specified mpi master task was not found"

_HIGHEST_PORT: Final = 65535

_NEEDED: Final = (
    ("pytorch", "master", "the plugin does nothing without it"),
    ("ray", "head", "no pod of the job can be made without it"),
)
"""The plugin, the flag that names a task, and the effect when there is no such task."""


def check_plugins(plugins: Json, path: str, known: Collection[str]) -> list[Finding]:
    """Return a fault for each plugin of a Job that is not in `known`."""
    said = {name: f"unable to find job plugin: {name}" for name in mapping(plugins) if name not in known}
    there = ", ".join(sorted(known))
    return [found(f" {said[name]};", invalid(path, name, f"{said[name]}; there are {there}")) for name in said]


def check_mpi_master(plugins: Json, tasks: Sequence[Mapping[str, Any]], path: str) -> Sequence[Finding]:
    """Return a fault when the master task of plugin `mpi` does not exist."""
    flags = _flags(plugins, "mpi")
    if flags is None or _has_task(tasks, flags.text("master")):
        return ()
    return [found(_NO_MASTER, required(f"{path}.mpi", f'{_NO_MASTER}: no task is named "{flags.text("master")}"'))]


def plugin_warnings(plugins: Json, tasks: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    """Yield warnings for arguments that are ignored, and for plugins whose task does not exist."""
    for name in mapping(plugins):
        flags = _flags(plugins, name)
        if flags is not None and flags.mistake:
            yield f"{path}.{name}[{flags.position}]: {flags.mistake}; this argument and those after it are passed over"
        if flags is not None:
            yield from _port_warnings(flags, f"{path}.{name}")
    for name, role, effect in _NEEDED:
        flags = _flags(plugins, name)
        if flags is not None and not _has_task(tasks, flags.text(role)):
            yield f'{path}.{name}: no task is named "{flags.text(role)}"; {effect}'
    flags = _flags(plugins, "svc")
    if flags is not None and (launcher := flags.text("launcher")) and not _has_task(tasks, launcher):
        yield f'{path}.svc: no task is named "{launcher}"; nothing waits for workers'


def host_list_warnings(spec: Mapping[str, Any], path: str, job_name: str) -> Iterator[str]:
    """Yield a warning for each task whose list of hosts is too long for an environment variable."""
    plugins, total = mapping(spec.get("plugins")), 0
    for _, task in mappings(spec.get("tasks")) if {"svc", "mpi"} & plugins.keys() else ():
        name, count = text(task.get("name")), (0 if "array" in task else optional_integer(task.get("replicas")) or 0)
        length = count * len(f"{job_name}-{name}-{max(0, count - 1)}.{job_name},")
        if length <= LONGEST_HOST_LIST and total + length <= MOST_IN_VARIABLES:
            total += length
        else:
            word = name.replace("-", "_")
            effect = f"VC_{word.upper()}_HOSTS and MPI_HOST are not set: read the file /etc/volcano/{word}.host"
            yield f'{path}.plugins: the hosts of task "{name}" are too long for an environment variable; {effect}'


def _port_warnings(flags: Flags, path: str) -> Iterator[str]:
    for flag, value in flags.values.items():
        if flag.lower().endswith("port") and not 0 < flags.number(flag) <= _HIGHEST_PORT:
            effect = "22 is taken" if flag == "ssh-port" else "nothing can listen on it"
            yield f"{path}: {value} is no port (--{flag}), it must be between 1 and {_HIGHEST_PORT}; {effect}"


def _flags(plugins: Json, name: str) -> Flags | None:
    given = mapping(plugins)
    return go_flags.parse(string_items(given[name]), BUILT_IN[name]) if name in given and name in BUILT_IN else None


def _has_task(tasks: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(text(task.get("name")) == name for task in tasks)
