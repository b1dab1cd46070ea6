"""What every container runtime needs: the data with which a container starts, and the options of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroclast_standalone import times
from pyroclast_standalone.nodes import environment, records, volumes
from pyroclast_standalone.nodes.lives import Trouble
from pyroclast_standalone.nodes.sources import Reference, Sources

LogLine = tuple[float, str]
"""Seconds since the epoch, and the text without its line end."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options of a log request. `since` is in seconds since the epoch."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None
    limit_bytes: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], now: float) -> LogOptions:
        """Parse the options in a request's query. Raises ValueError: an option is malformed. The message names it."""
        since = times.epoch(query["sinceTime"]) if "sinceTime" in query else None
        if "sinceSeconds" in query:
            since = now - _number(query, "sinceSeconds")
        return cls(
            follow=_flag(query, "follow"),
            previous=_flag(query, "previous"),
            timestamps=_flag(query, "timestamps"),
            tail=_number(query, "tailLines") if "tailLines" in query else None,
            since=since,
            limit_bytes=_number(query, "limitBytes") if "limitBytes" in query else None,
        )


def selected(lines: Sequence[LogLine], options: LogOptions) -> Sequence[LogLine]:
    """Return the lines of a container log that `options` select."""
    if options.since is not None:
        lines = [line for line in lines if line[0] >= options.since]
    if options.tail is not None:
        lines = lines[len(lines) - min(options.tail, len(lines)) :]
    return lines


def written(line: LogLine, options: LogOptions) -> bytes:
    """Return a line of a container log in the form in which it is sent to the client."""
    stamp = times.nano_rfc3339(line[0]) + " " if options.timestamps else ""
    return f"{stamp}{line[1]}\n".encode()


def _flag(query: Mapping[str, str], name: str) -> bool:
    return name in query and query[name].lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    if not query[name].isdigit():
        raise ValueError(f"{name}={query[name]}: not a number")
    return int(query[name])


class MountError(environment.ConfigurationError):
    """The content of a volume does not exist."""


def trouble_of(error: environment.ConfigurationError) -> Trouble:
    """Return why the container waits, as a kubelet reports it."""
    if isinstance(error, MountError):
        return Trouble("ContainerCreating", str(error), event="FailedMount")
    return Trouble("CreateContainerConfigError", str(error))


@dataclass(frozen=True, slots=True)
class Workload:
    """The command line and variables of a container."""

    argv: list[str]
    variables: dict[str, str]


async def workload(pod: records.Pod, container: records.Container, place: environment.Place, sources: Sources) -> Workload:
    """Read the objects from which `container` has variables.

    Raises environment.ConfigurationError: a required object or key does not exist.
    """
    read = await _read(environment.references(pod, container), sources)
    variables = environment.environment(pod, container, place, read)
    return Workload(environment.argv(container, variables), variables)


async def resolved_volumes(
    pod: records.Pod, place: environment.Place, sources: Sources, *, with_tokens: bool = False
) -> dict[str, dict[str, volumes.File]]:
    """Return the files of the volumes of `pod` whose content is in the API.

    Raises MountError: a required object or key does not exist.
    """
    read = await _read(volumes.references(pod), sources)
    found: dict[str, dict[str, volumes.File]] = {}
    for volume in pod.spec.volumes:
        issued = {wish: await _token(pod, wish, sources) for wish in volumes.tokens(volume)} if with_tokens else {}
        try:
            files = volumes.files(pod, volume, place, read, issued)
        except environment.ConfigurationError as error:
            raise MountError(f'MountVolume.SetUp failed for volume "{volume.get("name")}" : {error}') from error
        if files is not None:
            found[str(volume.get("name"))] = files
    return found


async def _token(pod: records.Pod, wish: volumes.TokenWish, sources: Sources) -> str:
    account = pod.spec.service_account_name or "default"
    owner = (pod.metadata.name, pod.metadata.uid)
    return await sources.token(pod.metadata.namespace, account, audience=wish.audience, seconds=wish.seconds, pod=owner)


async def _read(references: Sequence[Reference], sources: Sources) -> environment.Read:
    wanted = sorted({(reference.kind, reference.key) for reference in references})
    contents = await asyncio.gather(*(sources.read(kind, key) for kind, key in wanted))
    return dict(zip(wanted, contents, strict=True))
