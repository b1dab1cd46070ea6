"""Decides what becomes of each part of an installed Volcano when Pyroclast takes over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyroclast_standalone.takeover.inventory import Inventory, Program
from pyroclast_standalone.takeover.programs import COUNTERPARTS, ConfigurationAnswer

__all__ = ["Effect", "Finding", "review"]

SCHEDULER_FILE: Final = "volcano-scheduler.conf"
LOGGING_FLAGS: Final = frozenset({"--logtostderr", "--v", "-v", "--stderrthreshold", "--alsologtostderr", "--vmodule"})


class Effect(StrEnum):
    """What happens to a part. A check with any `LOST` fails."""

    KEPT = "kept"
    REPLACED = "replaced"
    IGNORED = "ignored"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table: a part of the installation, what happens to it, and details."""

    part: str
    name: str
    effect: Effect
    detail: str


def review(
    inventory: Inventory,
    *,
    crds: Collection[str],
    flags: Mapping[str, Collection[str]],
    answers: Mapping[str, ConfigurationAnswer],
) -> list[Finding]:
    """The findings, in the order of the table.

    Args:
        inventory: what the cluster has.
        crds: names of the CustomResourceDefinitions that we install.
        flags: the flags known to each of our programs, by module.
        answers: what our scheduler says of a configuration, by its text.
    """
    return [
        *(finding for program in inventory.programs for finding in _program(program, flags)),
        *(_crd(name, versions, crds) for name, versions in sorted(inventory.crds.items())),
        *(
            Finding(
                each.kind,
                each.name,
                Effect.REPLACED,
                f"calls {', '.join(each.services)} now; delete it when our webhooks are installed",
            )
            for each in inventory.webhooks
        ),
        *(
            Finding("Lease", str(key), Effect.KEPT, f"held by {holder}; stop this program before you install ours")
            for key, holder in sorted(inventory.leases.items())
        ),
        *(
            finding
            for (key, file), text in sorted(inventory.configurations.items())
            for finding in _configuration(f"{key} {file}", answers.get(text))
        ),
        *(
            Finding(kind, phase, Effect.KEPT, f"{count} object{'' if count == 1 else 's'}")
            for kind, phases in inventory.counts.items()
            for phase, count in phases.items()
        ),
    ]


def _program(program: Program, flags: Mapping[str, Collection[str]]) -> list[Finding]:
    part, name = "Deployment", str(program.key)
    module = COUNTERPARTS.get(program.name)
    if module is None:
        return [
            Finding(
                part, name, Effect.LOST, f"{program.name} has no counterpart; pods that name its scheduler would wait for ever"
            )
        ]
    given = sorted({word.partition("=")[0] for word in program.arguments if word.startswith("-")} - LOGGING_FLAGS)
    unknown = [flag for flag in given if flag not in flags[module]]
    replaced = Finding(part, name, Effect.REPLACED, f"{program.image}, {program.replicas} replicas: {module} does its work")
    return [
        replaced,
        *(Finding("flag", f"{name} {flag}", Effect.IGNORED, f"{module} does not know this flag") for flag in unknown),
    ]


def _crd(name: str, versions: tuple[str, ...], ours: Collection[str]) -> Finding:
    stored = f"stored as {', '.join(versions)}" if versions else "nothing stored yet"
    if name in ours:
        return Finding("CRD", name, Effect.KEPT, f"{stored}; we install a newer definition with the same versions")
    return Finding(
        "CRD", name, Effect.IGNORED, f"{stored}; the definition and its objects stay, and no program of ours reads them"
    )


def _configuration(name: str, answer: ConfigurationAnswer | None) -> list[Finding]:
    part = "ConfigMap"
    if answer is None:
        return [Finding(part, name, Effect.KEPT, "give it to the chart in the value of the same name")]
    if answer.error:
        return [Finding(part, name, Effect.LOST, f"the scheduler cannot use it: {answer.error}")]
    lost = [_warning(name, warning) for warning in answer.warnings]
    return [Finding(part, name, Effect.KEPT, "the scheduler can use it as custom.scheduler_config_override"), *lost]


def _warning(name: str, warning: str) -> Finding:
    """An unknown plugin takes its decisions away with it; other warnings are of fields without an effect."""
    effect = Effect.LOST if "Failed to get plugin" in warning else Effect.IGNORED
    return Finding("setting", name, effect, warning)
