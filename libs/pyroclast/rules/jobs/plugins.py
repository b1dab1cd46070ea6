"""Plugins of a Job: which there are, and what the arguments of `mpi` ask of the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyroclast.rules.errors import invalid, required
from pyroclast.rules.values import Json, mapping, string_items, text
from pyroclast.rules.verdicts import Finding, found

__all__ = ["PLUGINS", "check_mpi_master", "check_plugins"]

PLUGINS = ("ssh", "env", "svc", "tensorflow", "mpi", "pytorch", "hcclrank", "ray")

_MPI_FLAGS = {"master", "worker", "port"}
_NO_MASTER = "The specified mpi master task was not found"


def check_plugins(plugins: Json, path: str) -> list[Finding]:
    """Plugins that do not exist."""
    return [_unknown(name, path) for name in mapping(plugins) if name not in PLUGINS]


def _unknown(name: str, path: str) -> Finding:
    sentence = f"unable to find job plugin: {name}"
    return found(f" {sentence};", invalid(path, name, f"{sentence}; there are {', '.join(sorted(PLUGINS))}"))


def check_mpi_master(plugins: Json, tasks: Sequence[Mapping[str, Any]], path: str) -> Sequence[Finding]:
    """The task that plugin `mpi` takes for its master must be there."""
    given = mapping(plugins)
    if "mpi" not in given:
        return ()
    master = _mpi_arguments(string_items(given["mpi"])).get("master", "master")
    if any(text(task.get("name")) == master for task in tasks):
        return ()
    return [found(_NO_MASTER, required(f"{path}.mpi", f'{_NO_MASTER}: no task is named "{master}"'))]


def _mpi_arguments(arguments: list[str]) -> dict[str, str]:
    """Flags read the way Go reads them; reading stops at the first thing that is none, with what was read so far."""
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, separator, value = argument.lstrip("-").partition("=")
        dashes = len(argument) - len(argument.lstrip("-"))
        if dashes not in (1, 2) or name not in _MPI_FLAGS:
            break
        if not separator:
            following = next(rest, None)
            if following is None:
                break
            value = following
        if name == "port" and not value.lstrip("+-").isdecimal():
            break
        values[name] = value
    return values
