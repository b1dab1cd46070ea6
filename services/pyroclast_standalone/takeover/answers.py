"""Asks our programs and rules whether they know a flag of Volcano, and whether they can use one of its configurations."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
import yaml

from pyroclast.lifecycle import shards
from pyroclast.lifecycle.hypernodes import configuration as discovery
from pyroclast.rules.resourcegroups import ConfigurationError, read_groups
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.takeover.inventory import SHARDING_FILE

SCHEDULER_FILE: Final = "volcano-scheduler.conf"
ADMISSION_FILE: Final = "volcano-admission.conf"
CONTROLLER_FILE: Final = discovery.KEY

_KNOWN: Final[Mapping[str, Any]] = {
    ADMISSION_FILE: {"resourceGroups": {"resourceGroup", "object", "schedulerName", "tolerations", "labels", "affinity"}},
    CONTROLLER_FILE: {"networkTopologyDiscovery": {"source", "enabled", "interval", "credentials", "config"}},
    SHARDING_FILE: {
        "schedulerConfigs": {"name", "type", "policies", *shards.SHORT_FIELDS},
        "shardSyncPeriod": set(),
        "enableNodeEventTrigger": set(),
    },
}
"""The known keys of each file, and of the entries of its list."""


@dataclass(frozen=True, slots=True)
class ConfigurationAnswer:
    """The result for a configuration: the fault that makes it unusable, or warnings about ignored settings."""

    error: str
    warnings: tuple[str, ...]


def check_configuration(file: str, text: str) -> ConfigurationAnswer:
    """Check `text`, the content of `file`, as admission or the controllers would."""
    try:
        document = yaml.safe_load(text)
        if file == SHARDING_FILE:
            shards.read({file: text}, shards.from_flags((), period=60.0, on_events=True))
        elif file == ADMISSION_FILE:
            read_groups(document)
        else:
            discovery.read_sources({file: text})
    except yaml.YAMLError as error:
        return ConfigurationAnswer(f"it is not YAML: {error}", ())
    except (ConfigurationError, discovery.ConfigurationError, shards.ShardingError) as error:
        return ConfigurationAnswer(str(error), ())
    return ConfigurationAnswer("", tuple(_unknown(document or {}, _KNOWN[file])))


def _unknown(document: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    found = [f"{key}: unknown key, without effect" for key in document if key not in known]
    for key, inner in known.items():
        for index, entry in enumerate(document.get(key) or [] if inner else ()):
            found += [f"{key}[{index}].{name}: unknown key, without effect" for name in entry if name not in inner]
    return found


_FLAG: Final = re.compile(r"^  (--[a-z0-9-]+)  (.*)$", re.MULTILINE)
_SECONDS: Final = 30.0  # an interpreter starts within 1 s, on a loaded machine later


async def known_flags(module: str) -> dict[str, str]:
    """Return the flags in the help of a program of Pyroclast, each with its description."""
    return dict(_FLAG.findall((await _output(module, "--help")).decode()))


async def check_scheduler_configuration(text: str) -> ConfigurationAnswer:
    """Return the answer of `python -m pyroclast_scheduler check`; plugins that do not exist are warnings of their own."""
    answer = orjson.loads(
        await _output("pyroclast_scheduler", "check", "--skip-unknown-plugins", "-", given=text.encode(), accepted=(0, 1))
    )
    return ConfigurationAnswer(answer["error"], tuple(answer["warnings"]))


async def _output(module: str, *arguments: str, given: bytes = b"", accepted: tuple[int, ...] = (0,)) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, errors = await process.communicate(given)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CommandError(f"{module} {' '.join(arguments)} did not answer within {_SECONDS:.0f} s") from None
    if process.returncode not in accepted:
        raise CommandError(f"{module} {' '.join(arguments)} ended with status {process.returncode}: {errors.decode().strip()}")
    return output
