"""Decides what happens to each component of an installed Volcano when Pyroclast takes over."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson
import yaml

from pyroclast.lifecycle.hypernodes import configuration as discovery
from pyroclast.resources import quantity
from pyroclast.rules.resourcegroups import ConfigurationError, read_groups
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.takeover.inventory import Inventory, Program

SCHEDULER_FILE: Final = "volcano-scheduler.conf"
ADMISSION_FILE: Final = "volcano-admission.conf"
CONTROLLER_FILE: Final = discovery.KEY
VALUES: Final = {
    SCHEDULER_FILE: "custom.scheduler_config_override",
    ADMISSION_FILE: "custom.admission_config_override",
    CONTROLLER_FILE: "custom.controller_config_override",
}
"""The value of Pyroclast's chart for each of Volcano's files."""

_KNOWN: Final[Mapping[str, Any]] = {
    ADMISSION_FILE: {"resourceGroups": {"resourceGroup", "object", "schedulerName", "tolerations", "labels", "affinity"}},
    CONTROLLER_FILE: {"networkTopologyDiscovery": {"source", "enabled", "interval", "credentials", "config"}},
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
        if file == ADMISSION_FILE:
            read_groups(document)
        else:
            discovery.read_sources({file: text})
    except yaml.YAMLError as error:
        return ConfigurationAnswer(f"it is not YAML: {error}", ())
    except (ConfigurationError, discovery.ConfigurationError) as error:
        return ConfigurationAnswer(str(error), ())
    return ConfigurationAnswer("", tuple(_unknown(document or {}, _KNOWN[file])))


def _unknown(document: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    found = [f"{key}: unknown key, without effect" for key in document if key not in known]
    for key, inner in known.items():
        for index, entry in enumerate(document.get(key) or []):
            found += [f"{key}[{index}].{name}: unknown key, without effect" for name in entry if name not in inner]
    return found


COUNTERPARTS: Final[Mapping[str, str]] = {
    "vc-scheduler": "pyroclast_scheduler",
    "vc-controller-manager": "pyroclast_job_controller",
    "vc-webhook-manager": "pyroclast_admission",
    "vc-hypernode-controller-manager": "pyroclast_job_controller",
}
"""The program of Pyroclast for each program of Volcano."""

_FLAG: Final = re.compile(r"^  (--[a-z0-9-]+)", re.MULTILINE)
_SECONDS: Final = 30.0  # an interpreter starts within 1 s, on a loaded machine later


async def known_flags(module: str) -> frozenset[str]:
    """Return the flags in the help of a program of Pyroclast."""
    return frozenset(_FLAG.findall((await _output(module, "--help")).decode()))


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


LOGGING_FLAGS: Final = frozenset({"--logtostderr", "--v", "-v", "--stderrthreshold", "--alsologtostderr", "--vmodule"})

OWN_FLAGS: Final = frozenset(
    {
        "--enable-healthz",
        "--enable-metrics",
        "--healthz-address",
        "--kubeconfig",
        "--leader-elect",
        "--leader-elect-resource-namespace",
        "--listen-address",
        "--lock-object-namespace",
        "--metrics-address",
        "--port",
        "--webhook-namespace",
        "--webhook-service-name",
        "--webhook-url",
    }
)
"""Flags for the place and manner of an installation, whose values Pyroclast's chart sets itself."""
EXTRA: Final = {
    "pyroclast_scheduler": "custom.scheduler_extra_args",
    "pyroclast_job_controller": "custom.controller_extra_args",
    "pyroclast_admission": "custom.admission_extra_args",
}
"""The value of Pyroclast's chart for further flags of each program."""


class Effect(StrEnum):
    """The effect of a takeover on a component of Volcano. A check with any `LOST` fails."""

    KEPT = "kept"
    REPLACED = "replaced"
    IGNORED = "ignored"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table: a part of the installation, the effect of the takeover on it, and details."""

    part: str
    name: str
    effect: Effect
    detail: str


def review(
    inventory: Inventory,
    *,
    crds: Collection[str],
    flags: Mapping[str, Collection[str]],
    answers: Mapping[tuple[str, str], ConfigurationAnswer],
    given: Mapping[str, Collection[str]],
) -> list[Finding]:
    """Return the findings in the order of the table.

    Args:
        inventory: the parts of the installed Volcano.
        crds: the names of the CustomResourceDefinitions of Pyroclast.
        flags: the known flags of each program of Pyroclast, by module.
        answers: the result for each configuration, by file name and text.
        given: the arguments in Pyroclast's chart for each program, by module.
    """
    return [
        *(finding for program in inventory.programs for finding in _program(program, flags, given)),
        *(_crd(name, versions, crds) for name, versions in sorted(inventory.crds.items())),
        *(
            Finding(
                each.kind,
                each.name,
                Effect.REPLACED,
                f"calls {', '.join(each.services)}; the takeover saves and deletes it, our chart has webhooks of its own",
            )
            for each in inventory.webhooks
        ),
        *(
            Finding("Service", str(key), Effect.KEPT, "leads to nobody while Volcano is stopped; ours has other Services")
            for key in inventory.services
        ),
        *(
            Finding("Lease", str(key), Effect.KEPT, f"held by {holder}; while it is renewed, our program does nothing")
            for key, holder in sorted(inventory.leases.items())
        ),
        *(
            finding
            for (key, file), text in sorted(inventory.configurations.items())
            for finding in _configuration(f"{key} {file}", file, answers[file, text])
        ),
        *(
            Finding(kind, phase, Effect.KEPT, f"{count} object{'' if count == 1 else 's'}")
            for kind, phases in inventory.counts.items()
            for phase, count in phases.items()
        ),
        *(finding for name, amounts in sorted(inventory.capabilities.items()) for finding in _capability(name, amounts)),
    ]


def _capability(queue: str, amounts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the amounts of a capability that Volcano reads in another way."""
    for resource, value in amounts.items():
        try:
            is_zero = quantity.parse(str(value)) <= quantity.ZERO
        except ValueError:
            continue
        text = f"spec.capability.{resource} is {value}"
        if resource in {"cpu", "memory"} and is_zero:
            text = f"{text}: this is no {resource} for us, and no limit for Volcano; remove it for no limit"
            yield Finding("Queue", queue, Effect.REPLACED, text)
        elif resource == "pods":
            text = f"{text}: we count pods, and Volcano does not; remove it for no limit"
            yield Finding("Queue", queue, Effect.REPLACED, text)


def _program(program: Program, flags: Mapping[str, Collection[str]], given: Mapping[str, Collection[str]]) -> list[Finding]:
    part, name = "Deployment", str(program.key)
    module = COUNTERPARTS.get(program.name)
    if module is None:
        return [
            Finding(
                part, name, Effect.LOST, f"{program.name} has no counterpart; pods that name its scheduler would wait for ever"
            )
        ]
    told = f"{program.image}, {program.replicas} replicas: {module} does its work"
    words = sorted({word for word in program.arguments if word.startswith("-")} - set(given[module]))
    return [
        Finding(part, name, Effect.REPLACED, told),
        *(_flag(name, word, module, flags[module]) for word in words if word.partition("=")[0] not in LOGGING_FLAGS),
    ]


def _flag(name: str, word: str, module: str, known: Collection[str]) -> Finding:
    """Return the finding for a flag that Pyroclast's chart does not set to this value."""
    flag, _, value = word.partition("=")
    if flag not in known:
        return Finding("flag", f"{name} {flag}", Effect.IGNORED, f"{module} does not know this flag")
    if flag in OWN_FLAGS or value.startswith("/"):  # an address or path of Volcano's own installation
        return Finding("flag", f"{name} {flag}", Effect.REPLACED, f"{word}: our chart gives {module} its own")
    return Finding("flag", f"{name} {flag}", Effect.KEPT, f"{word}: give it to the chart, at least in {EXTRA[module]}")


def _crd(name: str, versions: tuple[str, ...], ours: Collection[str]) -> Finding:
    stored = f"stored as {', '.join(versions)}" if versions else "nothing stored yet"
    if name in ours:
        return Finding("CRD", name, Effect.KEPT, f"{stored}; we install a newer definition with the same versions")
    return Finding(
        "CRD", name, Effect.IGNORED, f"{stored}; the definition and its objects stay, and no program of ours reads them"
    )


def _configuration(name: str, file: str, answer: ConfigurationAnswer) -> list[Finding]:
    part = "ConfigMap"
    if answer.error:
        return [Finding(part, name, Effect.LOST, f"it cannot be used: {answer.error}")]
    found = [_warning(name, warning) for warning in answer.warnings]
    return [Finding(part, name, Effect.KEPT, f"give its text to the chart as {VALUES[file]}"), *found]


def _warning(name: str, warning: str) -> Finding:
    """Return the finding for a warning. An unknown plugin loses its decisions. Other warnings are about fields without effect."""
    effect = Effect.LOST if "Failed to get plugin" in warning else Effect.IGNORED
    return Finding("setting", name, effect, warning)
