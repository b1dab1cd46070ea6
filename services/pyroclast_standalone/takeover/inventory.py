"""Reads the components and objects of an installed Volcano from a cluster. Nothing is written."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyroclast.api.keys import AUTHORIZED_FOR
from pyroclast.api.types import (
    COMMANDS,
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOB_FLOWS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    POD_GROUPS,
    QUEUES,
    SERVICES,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
    Key,
    ResourceType,
)
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client, Json
from pyroclast.lifecycle import shards

WORKLOADS: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)
POLICIES: Final = tuple(
    ResourceType("admissionregistration.k8s.io", version, f"{kind.lower()[:-1]}ies", kind, namespaced=False)
    for version, kind in (
        ("v1", "ValidatingAdmissionPolicy"),
        ("v1", "MutatingAdmissionPolicy"),
        ("v1beta1", "MutatingAdmissionPolicy"),
    )
)
GROUP_SUFFIX: Final = ".volcano.sh"
LEASE_NAMES: Final = frozenset({"volcano", "vc-controller-manager", "agent-scheduler", "vc-hypernode-controller-manager"})
SHARDING_FILE: Final = shards.KEY
CONFIGURATIONS: Final = ("volcano-scheduler.conf", "volcano-admission.conf", "volcano-controller.conf", SHARDING_FILE)
COUNTED: Final = (JOBS, POD_GROUPS, QUEUES, JOB_FLOWS)

AGENT: Final = "vc-agent"
AGENT_SCHEDULER: Final = "vc-agent-scheduler"
ADMISSION: Final = "vc-webhook-manager"
CONTROLLERS: Final = "vc-controller-manager"
HYPERNODES: Final = "vc-hypernode-controller-manager"
SCHEDULER: Final = "vc-scheduler"


class Marks(NamedTuple):
    """By what a program is known when its image has another name: a value of the label `app` or `name`, and flags of its own."""

    label: str
    flags: frozenset[str]


PROGRAMS: Final[Mapping[str, Marks]] = {  # in this order: the flags of the agent scheduler include those of the scheduler
    AGENT: Marks("volcano-agent", frozenset({"--oversubscription-policy", "--supported-features", "--kube-cgroup-root"})),
    AGENT_SCHEDULER: Marks("agent-scheduler", frozenset({"--scheduler-worker-count"})),
    SCHEDULER: Marks("volcano-scheduler", frozenset({"--scheduler-conf"})),
    ADMISSION: Marks("volcano-admission", frozenset({"--enabled-admission", "--admission-conf", "--webhook-service-name"})),
    HYPERNODES: Marks("volcano-hypernode-controller", frozenset()),
    CONTROLLERS: Marks("volcano-controller", frozenset({"--worker-threads-for-podgroup", "--worker-threads-for-gc"})),
}


@dataclass(frozen=True, slots=True)
class Program:
    """A workload (Deployment, StatefulSet, DaemonSet) of one of Volcano's programs.

    `name`: the program. `arguments`: of its container, one flag each. `pod`: the spec of its pods. `resources`: of its container.
    """

    key: Key
    name: str
    image: str
    replicas: int
    arguments: tuple[str, ...]
    kind: ResourceType = DEPLOYMENTS
    pod: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class WebhookConfiguration:
    """A webhook configuration of Volcano. `services`: what its webhooks call."""

    kind: str
    name: str
    services: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The components of an installed Volcano.

    Attributes:
        services: the Services of its programs.
        policies: kind and name of its admission policies.
        configurations: text by ConfigMap and file name.
        counts: the numbers of objects by kind and phase.
        capabilities: the capability of each queue.
        commands: the number of Commands that our admission has not checked, and that therefore wait.
    """

    programs: tuple[Program, ...] = ()
    crds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    webhooks: tuple[WebhookConfiguration, ...] = ()
    leases: Mapping[Key, str] = field(default_factory=dict)
    configurations: Mapping[tuple[Key, str], str] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    services: tuple[Key, ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    capabilities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    commands: int = 0


async def read(client: Client) -> Inventory:
    """Read the inventory of a cluster. Kinds that the cluster does not serve count as absent."""
    single = (CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, LEASES, CONFIG_MAPS, SERVICES, COMMANDS)
    kinds = (*WORKLOADS, *POLICIES, *single, *COUNTED)
    objects = dict(zip(kinds, await asyncio.gather(*(_list(client, kind) for kind in kinds)), strict=True))
    workloads = [(kind, each) for kind in WORKLOADS for each in objects[kind] if not _is_ours(each)]
    running = [(program, each) for kind, each in workloads if (program := _program(kind, each)) is not None]
    services = set(_services(objects[SERVICES], [each for _, each in running]))
    ours = {_key(each) for each in objects[SERVICES] if _is_ours(each)}
    return Inventory(
        tuple(sorted((program for program, _ in running), key=lambda program: program.key)),
        {
            crd["metadata"]["name"]: tuple(crd.get("status", {}).get("storedVersions", ()))
            for crd in objects[CRDS]
            if crd["spec"]["group"].endswith(GROUP_SUFFIX)
        },
        tuple(
            sorted(
                WebhookConfiguration(kind.kind, each["metadata"]["name"], tuple(sorted({str(each) for each in _targets(each)})))
                for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
                for each in objects[kind]
                if _is_of_volcano(each, services, ours)
            )
        ),
        {
            _key(lease): lease["spec"]["holderIdentity"]
            for lease in objects[LEASES]
            if lease["metadata"]["name"] in LEASE_NAMES and lease.get("spec", {}).get("holderIdentity")
        },
        {
            (_key(each), file): text
            for each in objects[CONFIG_MAPS]
            for file, text in (each.get("data") or {}).items()
            if file in CONFIGURATIONS and not _is_ours(each) and (file != SHARDING_FILE or text.strip())
        },
        {kind.kind: Counter(sorted(_phase(each) for each in objects[kind])) for kind in COUNTED if objects[kind]},
        tuple(sorted(services)),
        tuple(sorted({(kind.kind, each["metadata"]["name"]) for kind in POLICIES for each in objects[kind] if _is_policy(each)})),
        {each["metadata"]["name"]: (each.get("spec") or {}).get("capability") or {} for each in objects[QUEUES]},
        sum(AUTHORIZED_FOR not in (each["metadata"].get("annotations") or {}) for each in objects[COMMANDS]),
    )


_ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Succeed"})
_OF_JOBS: Final = frozenset(
    {
        *("suspend", "managedBy", "after", "afterPolicy", "deadline", "maxRunTime", "onTimeout", "signalBefore"),
        *("maxFailedPods", "retry"),
    }
)
_OF_TASKS: Final = frozenset({"array", "independentPods"})
_OF_PLUGINS: Final = frozenset({"slurm"})
"""Fields of Jobs and plugins that Volcano does not know. Its CRDs remove them when an object is written."""


async def beyond_volcano(client: Client) -> dict[str, list[str]]:
    """Return the fields that Volcano does not know, by the kind, namespace and name of each unfinished Job and flow with some."""
    found = {}
    for kind in (JOBS, JOB_FLOWS):
        for each in await _list(client, kind):
            if _phase(each) not in _ENDED and (names := fields_beyond_volcano(each.get("spec") or {})):
                found[f"{kind.kind} {_key(each)}"] = names
    return found


def fields_beyond_volcano(spec: Json) -> list[str]:
    """Return the paths of the fields in the spec of a Job or flow that Volcano does not know."""
    names = [name for name in spec if name in _OF_JOBS and spec[name]]
    names += [f"plugins.{name}" for name in spec.get("plugins") or {} if name in _OF_PLUGINS]
    names += sorted({f"tasks[].{name}" for task in spec.get("tasks") or () for name in task if name in _OF_TASKS and task[name]})
    return names


async def _list(client: Client, kind: ResourceType) -> list[Json]:
    try:
        return (await client.list(kind))[0]
    except NotFound:
        return []


def _is_ours(item: Json) -> bool:
    return bool((item["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == "pyroclast")


def _program(kind: ResourceType, workload: Json) -> Program | None:
    """Return the program of Volcano that a workload runs; None when it runs none.

    The name of an image may have been changed, and so may labels. A program is known by any of the image, the command, its
    label and the flags that only this program has.
    """
    template = workload["spec"]["template"]
    labels = {**(workload["metadata"].get("labels") or {}), **(template["metadata"].get("labels") or {})}
    for container in template["spec"]["containers"]:
        words = _words((*(container.get("command") or ()), *(container.get("args") or ())))
        name = _name_of(container, words, {labels.get("app"), labels.get("name")})
        if name:
            replicas = 1 if kind == DAEMON_SETS else workload["spec"].get("replicas", 1)
            resources = container.get("resources") or {}
            image = str(container.get("image", ""))
            return Program(_key(workload), name, image, replicas, words, kind, template["spec"], resources)
    return None


def _name_of(container: Mapping[str, Any], words: Sequence[str], labels: Collection[str | None]) -> str:
    """Return the program of Volcano that a container runs. `words`: its command and arguments. `labels`: of its pod."""
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    commands = {image, *(word.rpartition("/")[2] for word in words if not word.startswith("-"))}
    flags = {word.partition("=")[0].replace("_", "-") for word in words if word.startswith("-")}
    names = [name for name in PROGRAMS if name in commands]
    names += [name for name, marks in PROGRAMS.items() if marks.label in labels]
    names += [name for name, marks in PROGRAMS.items() if marks.flags & flags]
    return next(iter(names), "")


def _services(services: Sequence[Json], workloads: Sequence[Json]) -> list[Key]:
    """Return the Services that select pods of `workloads`."""
    templates = [(_key(each).namespace, each["spec"]["template"]) for each in workloads]
    labels = [(namespace, template["metadata"].get("labels") or {}) for namespace, template in templates]
    return [
        _key(service)
        for service in services
        if (chosen := service["spec"].get("selector"))
        and any(namespace == _key(service).namespace and chosen.items() <= labelled.items() for namespace, labelled in labels)
    ]


def _words(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments one by one, because a manifest may have all of them in one `sh -c` text."""
    return tuple(word for argument in arguments for word in argument.split())


def _is_of_volcano(configuration: Json, services: AbstractSet[Key], ours: AbstractSet[Key]) -> bool:
    """Whether the webhooks of a configuration are Volcano's, by the Service that they call.

    A label says nothing: manifests of Volcano that were applied over ours keep our labels. Where no such Service is left, the
    names of the webhooks count, and of those with a URL also the label.
    """
    targets = set(_targets(configuration))
    if targets & services:
        return True
    if targets & ours or not targets or (all(isinstance(each, str) for each in targets) and _is_ours(configuration)):
        return False
    return any(str(webhook.get("name", "")).endswith(GROUP_SUFFIX) for webhook in configuration.get("webhooks") or ())


def _targets(configuration: Json) -> Iterator[Key | str]:
    """Yield the Service or the URL that each webhook of a configuration calls."""
    for webhook in configuration.get("webhooks") or ():
        client = webhook["clientConfig"]
        service = client.get("service")
        yield Key(service["namespace"], service["name"]) if service else str(client.get("url", ""))


def _is_policy(policy: Json) -> bool:
    """Whether an admission policy is Volcano's: it matches kinds of Volcano, or has one of its names, and is not ours."""
    rules = ((policy["spec"].get("matchConstraints") or {}).get("resourceRules")) or ()
    groups = {group for rule in rules for group in rule.get("apiGroups") or ()}
    named = re.fullmatch(
        r"(volcano-)?(job|queue|podgroup|pod|hypernode|jobflow)-(validation|mutation)-policy", policy["metadata"]["name"]
    )
    return not _is_ours(policy) and (named is not None or any(group.endswith(GROUP_SUFFIX) for group in groups))


def _phase(item: Mapping[str, Any]) -> str:
    status = item.get("status") or {}
    state = status.get("state")
    phase = status.get("phase") or (state.get("phase") if isinstance(state, dict) else state)
    return str(phase or "no phase yet")


def _key(item: Mapping[str, Any]) -> Key:
    return Key(item["metadata"].get("namespace", ""), item["metadata"]["name"])
