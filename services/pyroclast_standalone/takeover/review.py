"""Decides what happens to each component of an installed Volcano when Pyroclast takes over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pyroclast.api.types import DAEMON_SETS, Key
from pyroclast.resources import quantity
from pyroclast_standalone.takeover.answers import ADMISSION_FILE, CONTROLLER_FILE, SCHEDULER_FILE, ConfigurationAnswer
from pyroclast_standalone.takeover.inventory import (
    ADMISSION,
    AGENT,
    CONTROLLERS,
    HYPERNODES,
    PROGRAMS,
    SCHEDULER,
    SHARDING_FILE,
    Inventory,
    Program,
)

VALUES: Final = {
    SCHEDULER_FILE: "custom.scheduler_config_override",
    ADMISSION_FILE: "custom.admission_config_override",
    CONTROLLER_FILE: "custom.controller_config_override",
    SHARDING_FILE: "custom.sharding_configmap_data",
}
"""The value of Pyroclast's chart for each of Volcano's files."""

COUNTERPARTS: Final[Mapping[str, str]] = {
    SCHEDULER: "pyroclast_scheduler",
    CONTROLLERS: "pyroclast_job_controller",
    ADMISSION: "pyroclast_admission",
    HYPERNODES: "pyroclast_job_controller",
}
"""The program of Pyroclast for each program of Volcano."""

_LOGGING_FLAGS: Final = frozenset(
    {"--logtostderr", "--v", "-v", "--stderrthreshold", "--alsologtostderr", "--vmodule", "--log-flush-frequency"}
)

_OWN_FLAGS: Final = frozenset(
    {
        *("--admission-conf", "--ca-cert-file", "--enable-healthz", "--enable-metrics", "--enabled-admission"),
        *("--healthz-address", "--kubeconfig", "--leader-elect", "--leader-elect-resource-lock"),
        *("--leader-elect-resource-name", "--leader-elect-resource-namespace", "--listen-address"),
        *("--lock-object-namespace", "--master", "--metrics-address", "--port", "--scheduler-conf", "--sharding-configmap"),
        *("--sharding-configmap-namespace", "--tls-cert-file", "--tls-private-key-file", "--webhook-namespace"),
        *("--webhook-service-name", "--webhook-url"),
    }
)
"""Flags for the place and manner of an installation, whose values Pyroclast's chart sets itself."""


def _truth(text: str) -> bool:
    return text.lower() not in {"false", "f", "0"}


_Value = Callable[[str], Any]
_ANY_PROGRAM: Final[Mapping[str, tuple[str, _Value]]] = {
    "--kube-api-qps": ("kube_api_qps", lambda text: int(float(text))),
    "--kube-api-burst": ("kube_api_burst", int),
}
_CHART_VALUES: Final[Mapping[str, Mapping[str, tuple[str, _Value]]]] = {
    SCHEDULER: {
        **{flag: (f"scheduler_{name}", read) for flag, (name, read) in _ANY_PROGRAM.items()},
        "--scheduler-name": ("scheduler_name", str),
        "--schedule-period": ("scheduler_schedule_period", str),
        "--feature-gates": ("scheduler_feature_gates", str),
        "--scheduler-sharding-mode": ("scheduler_sharding_mode", str),
        "--scheduler-sharding-name": ("scheduler_sharding_name", str),
    },
    CONTROLLERS: {
        **{flag: (f"controller_{name}", read) for flag, (name, read) in _ANY_PROGRAM.items()},
        "--scheduler-name": ("scheduler_name", str),
        "--controllers": ("controller_enabled_controllers", str),
        "--worker-threads": ("controller_worker_threads", int),
        "--worker-threads-for-gc": ("controller_worker_threads_for_gc", int),
        "--worker-threads-for-podgroup": ("controller_worker_threads_for_podgroup", int),
    },
    ADMISSION: {
        "--scheduler-name": ("scheduler_name", str),
        "--feature-gates": ("admission_feature_gates", str),
        "--max-queue-depth": ("max_queue_depth", int),
        "--enable-root-queue-protection": ("enable_root_queue_protection", _truth),
        "--enable-queue-allocated-pods-check": ("enable_queue_allocated_pods_check", _truth),
    },
    HYPERNODES: {},
}
"""The value of Pyroclast's chart, below `custom`, for each flag of a program, and how its text is read."""

_EXTRA: Final = {
    SCHEDULER: "scheduler_extra_args",
    CONTROLLERS: "controller_extra_args",
    ADMISSION: "admission_extra_args",
    HYPERNODES: "controller_extra_args",
}
"""The value of Pyroclast's chart for further flags of each program."""

_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    SCHEDULER: {"--kube-api-qps": "2000", "--kube-api-burst": "2000", "--schedule-period": "1s", "--scheduler-name": "volcano"},
    CONTROLLERS: {
        "--kube-api-qps": "50",
        "--kube-api-burst": "100",
        "--worker-threads": "3",
        "--worker-threads-for-gc": "5",
        "--worker-threads-for-podgroup": "5",
        "--scheduler-name": "volcano",
    },
    ADMISSION: {"--kube-api-qps": "50", "--kube-api-burst": "100", "--scheduler-name": "volcano"},
    HYPERNODES: {"--kube-api-qps": "50", "--kube-api-burst": "100"},
}
"""The flags that Volcano's chart always sets, with its defaults: nobody chose them, and our defaults differ."""

_PLACEMENT: Final = {"nodeSelector": "ns", "tolerations": "tolerations", "affinity": "affinity"}
"""The fields of pods that our chart takes over, and the end of the name of each value."""
_KEYS: Final = {SCHEDULER: "scheduler", CONTROLLERS: "controller", ADMISSION: "admission"}
"""The beginning of the names of a program's values in both charts."""


class Effect(StrEnum):
    """The effect of a takeover on a component of Volcano. A check with any `LOST` fails."""

    KEPT = "kept"
    REPLACED = "replaced"
    IGNORED = "ignored"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table: a part of the installation, the effect of the takeover on it, and details.

    `value`: name and content of the value of our chart that carries it over; None when no value is needed.
    """

    part: str
    name: str
    effect: Effect
    detail: str
    value: tuple[str, Any] | None = None


def review(
    inventory: Inventory,
    *,
    crds: Collection[str],
    flags: Mapping[str, Mapping[str, str]],
    answers: Mapping[tuple[str, str], ConfigurationAnswer],
    given: Mapping[str, Collection[str]],
) -> list[Finding]:
    """Return the findings in the order of the table.

    Of Pyroclast: the names of its `crds`, the known `flags` of each program with their descriptions, and the arguments that are
    `given` to each program in the chart, both by module. `answers`: the result for each configuration, by file name and text.
    """
    main = _main_scheduler(inventory.programs)  # the other schedulers become further names of it
    return [
        *_unrecognised(inventory),
        *(finding for program in inventory.programs for finding in _program(program, flags, given, main, inventory)),
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
            Finding(kind, name, Effect.KEPT, "stays in force beside our webhooks until you uninstall Volcano's chart")
            for kind, name in inventory.policies
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
            for finding in _configuration(f"{key} {file}", file, text, answers[file, text])
        ),
        *(
            Finding(kind, phase, Effect.KEPT, f"{count} object{'' if count == 1 else 's'}")
            for kind, phases in inventory.counts.items()
            for phase, count in phases.items()
        ),
        *_commands(inventory.commands),
        *(finding for name, amounts in sorted(inventory.capabilities.items()) for finding in _capability(name, amounts)),
    ]


def _commands(count: int) -> list[Finding]:
    if not count:
        return []
    number = f"{count} Command{'' if count == 1 else 's'}"
    text = f"{number} without a check of admission: they wait, as nobody knows whether their users may do this; create them again"
    return [Finding("Command", "unchecked", Effect.IGNORED, text)]


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


def chart_values(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the values for Pyroclast's chart that follow from the findings, nested as in a file of values.

    Pods are bound after they exist, as clients of Volcano expect it.
    """
    values: dict[str, Any] = {"custom": {"place_before_pods": False}}
    for name, content in (finding.value for finding in findings if finding.value is not None):
        section, _, key = name.partition(".")
        found = values.setdefault(section, {})
        found[key] = [*found[key], *content] if isinstance(content, list) and key in found else content
    return values


def _unrecognised(inventory: Inventory) -> list[Finding]:
    """Return the finding for parts of Volcano whose program was not found: it may run under a name that nobody knows."""
    names = {program.name for program in inventory.programs}
    callers = [] if ADMISSION in names else [f"{each.kind} {each.name}" for each in inventory.webhooks]
    files = [] if SCHEDULER in names else [f"ConfigMap {key}" for key, file in inventory.configurations if file == SCHEDULER_FILE]
    return [
        Finding(
            *("program", "not found", Effect.LOST),
            f"{part} is here, but no workload was recognised as {name}: if it runs, the takeover would not stop it. Give its"
            f" Deployment the label app={PROGRAMS[name].label}, or delete the leftover of a Volcano that is uninstalled",
        )
        for name, parts in ((SCHEDULER, files), (ADMISSION, callers))
        for part in parts[:1]
    ]


def _main_scheduler(programs: Sequence[Program]) -> Program | None:
    """Return the scheduler whose settings ours takes over: the one with the name `volcano`, else the first one."""
    schedulers = sorted(
        (program for program in programs if program.name == SCHEDULER), key=lambda each: _names(each) != ["volcano"]
    )
    return schedulers[0] if schedulers else None


def _further(program: Program, main: Program, inventory: Inventory) -> Finding:
    """Return the finding for a further scheduler: ours serves its name too, if both have one configuration."""
    part, name = program.kind.kind, str(program.key)
    names = _names(program)
    known = f"a further scheduler with the name {', '.join(names)}"
    own = [word.partition("=")[0] for word in program.arguments if word.startswith("--scheduler-sharding-")]
    if own or _configurations(program, inventory) != _configurations(main, inventory):
        why = f"flags of its own ({', '.join(own)})" if own else f"another configuration than {main.key}"
        detail = f"{known} and {why}, which one scheduler cannot have; see docs/reference/several-schedulers.md"
        return Finding(part, name, Effect.LOST, detail)
    detail = f"{known}: our scheduler serves this name too, by custom.further_scheduler_names of the chart"
    return Finding(part, name, Effect.REPLACED, detail, ("custom.further_scheduler_names", names))


def _configurations(scheduler: Program, inventory: Inventory) -> list[str]:
    """Return the texts that the pods of a scheduler mount as its configuration."""
    sources = ((volume.get("configMap") or {}).get("name") for volume in scheduler.pod.get("volumes") or ())
    keys = ((Key(scheduler.key.namespace, name), SCHEDULER_FILE) for name in sources if name)
    return sorted(inventory.configurations[key] for key in keys if key in inventory.configurations)


def _names(scheduler: Program) -> list[str]:
    """Return the values of `--scheduler-name`."""
    names = [word.partition("=")[2] for word in scheduler.arguments if word.startswith("--scheduler-name=")]
    return names or ["volcano"]


def _program(
    program: Program,
    flags: Mapping[str, Mapping[str, str]],
    given: Mapping[str, Collection[str]],
    main: Program | None,
    inventory: Inventory,
) -> list[Finding]:
    part, name = program.kind.kind, str(program.key)
    if program.name == AGENT:
        detail = "goes on as it is until you uninstall Volcano's chart; Pyroclast has no agent on nodes"
        return [Finding(part, name, Effect.KEPT, detail)]
    module = COUNTERPARTS.get(program.name)
    if module is None:
        detail = f"{program.name} has no counterpart; pods that name its scheduler would wait for ever"
        return [Finding(part, name, Effect.LOST, detail)]
    if program.kind == DAEMON_SETS:
        detail = f"{program.image} runs on each node, which the takeover cannot stop: delete it, or run it as a Deployment"
        return [Finding(part, name, Effect.LOST, detail)]
    if program.name == SCHEDULER and main is not None and program.key != main.key:
        return [_further(program, main, inventory)]
    detail = f"{program.image}, {program.replicas} replicas: {module} does its work"
    words = sorted({word for word in program.arguments if word.startswith("-")})
    return [
        Finding(part, name, Effect.REPLACED, detail, _replicas(program)),
        *(_flag(program, word, flags[module]) for word in words if _is_reported(program, word, given[module])),
        *_placement(program),
    ]


def _replicas(program: Program) -> tuple[str, Any] | None:
    return (
        (f"custom.{_KEYS[program.name]}_replicas", program.replicas) if program.replicas > 1 and program.name in _KEYS else None
    )


def _is_reported(program: Program, word: str, given: Collection[str]) -> bool:
    """Whether a flag has a row: it is not about logging, and neither what our chart gives nor Volcano's own default."""
    flag, _, value = word.partition("=")
    return flag not in _LOGGING_FLAGS and word not in given and _DEFAULTS[program.name].get(flag) != value


def _flag(program: Program, word: str, known: Mapping[str, str]) -> Finding:
    """Return the finding for a flag of a program. `known`: the flags of ours, with their descriptions."""
    flag, equals, value = word.partition("=")
    module, name = COUNTERPARTS[program.name], f"{program.key} {flag}"
    if flag not in known:
        return Finding("flag", name, Effect.IGNORED, f"{module} does not know this flag")
    if known[flag].startswith("no effect"):
        return Finding("flag", name, Effect.IGNORED, f"{word}: {module} accepts this flag, with {known[flag]}")
    if flag in _OWN_FLAGS:  # an address or path of Volcano's own installation
        return Finding("flag", name, Effect.REPLACED, f"{word}: our chart gives {module} its own")
    path, read = _CHART_VALUES[program.name].get(flag, (_EXTRA[program.name], None))
    try:
        content = [word] if read is None else read(value if equals else "true")
    except ValueError:
        return Finding("flag", name, Effect.LOST, f"{word}: {value!r} cannot be read as the value custom.{path}")
    return Finding("flag", name, Effect.KEPT, f"{word}: custom.{path} of the chart", (f"custom.{path}", content))


def _placement(program: Program) -> Iterator[Finding]:
    """Yield the findings for where the pods of a program run and what they may use."""
    key = _KEYS.get(program.name)
    if key is None:
        return
    found = {f"custom.{key}_{end}": program.pod.get(field) for field, end in _PLACEMENT.items()}
    found[f"custom.{key}_resources"] = program.resources
    secrets = program.pod.get("imagePullSecrets") or [{}]
    found["basic.image_pull_secret"] = secrets[0].get("name") if program.name == SCHEDULER else None
    for path, content in found.items():
        if content:
            yield Finding("setting", str(program.key), Effect.KEPT, f"{path} of the chart", (path, content))


def _crd(name: str, versions: tuple[str, ...], ours: Collection[str]) -> Finding:
    stored = f"stored as {', '.join(versions)}" if versions else "nothing stored yet"
    if name in ours:
        return Finding("CRD", name, Effect.KEPT, f"{stored}; we install a newer definition with the same versions")
    return Finding(
        "CRD", name, Effect.IGNORED, f"{stored}; the definition and its objects stay, and no program of ours reads them"
    )


def _configuration(name: str, file: str, text: str, answer: ConfigurationAnswer) -> list[Finding]:
    part = "ConfigMap"
    if answer.error:
        return [Finding(part, name, Effect.LOST, f"it cannot be used: {answer.error}")]
    warnings = [_warning(name, warning) for warning in answer.warnings]
    return [Finding(part, name, Effect.KEPT, f"its text: {VALUES[file]} of the chart", (VALUES[file], text)), *warnings]


def _warning(name: str, warning: str) -> Finding:
    """Return the finding for a warning. An unknown plugin loses its decisions. Other warnings are about fields without effect."""
    effect = Effect.LOST if "Failed to get plugin" in warning else Effect.IGNORED
    return Finding("setting", name, effect, warning)
