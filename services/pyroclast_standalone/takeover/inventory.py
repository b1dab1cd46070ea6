"""Reads the components and objects of an installed Volcano from a cluster. Nothing is written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroclast.api.types import (
    CONFIG_MAPS,
    CRDS,
    JOB_FLOWS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    POD_GROUPS,
    QUEUES,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Key,
    ResourceType,
)
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client, Json

DEPLOYMENTS: Final = ResourceType("apps", "v1", "deployments", "Deployment")
GROUP_SUFFIX: Final = ".volcano.sh"
PROGRAMS: Final = (
    "vc-scheduler",
    "vc-controller-manager",
    "vc-webhook-manager",
    "vc-agent-scheduler",
    "vc-hypernode-controller-manager",
)
LEASE_NAMES: Final = frozenset({"volcano", "vc-controller-manager", "agent-scheduler", "vc-hypernode-controller-manager"})
CONFIGURATIONS: Final = ("volcano-scheduler.conf", "volcano-admission.conf", "volcano-controller.conf")
COUNTED: Final = (JOBS, POD_GROUPS, QUEUES, JOB_FLOWS)


@dataclass(frozen=True, slots=True)
class Program:
    """A Deployment of one of Volcano's programs, with the program's name and its container's arguments."""

    key: Key
    name: str
    image: str
    replicas: int
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """A webhook configuration for Volcano's API groups that calls `services`."""

    kind: str
    name: str
    services: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The components of an installed Volcano.

    Attributes:
        services: the Services of its programs.
        configurations: text by ConfigMap and file name.
        counts: the numbers of objects by kind and phase.
        capabilities: the capability of each queue.
    """

    programs: tuple[Program, ...] = ()
    crds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    webhooks: tuple[WebhookConfiguration, ...] = ()
    leases: Mapping[Key, str] = field(default_factory=dict)
    configurations: Mapping[tuple[Key, str], str] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    services: tuple[Key, ...] = ()
    capabilities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


async def read(client: Client) -> Inventory:
    """Read the inventory of a cluster. Kinds that the cluster does not serve count as absent."""
    kinds = (DEPLOYMENTS, CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, LEASES, CONFIG_MAPS, SERVICES, *COUNTED)
    found = dict(zip(kinds, await asyncio.gather(*(_list(client, kind) for kind in kinds)), strict=True))
    programs = tuple(sorted(_programs(found[DEPLOYMENTS]), key=lambda program: program.key))
    return Inventory(
        programs,
        {
            crd["metadata"]["name"]: tuple(crd.get("status", {}).get("storedVersions", ()))
            for crd in found[CRDS]
            if crd["spec"]["group"].endswith(GROUP_SUFFIX)
        },
        (
            *_webhooks("MutatingWebhookConfiguration", found[MUTATING_WEBHOOKS]),
            *_webhooks("ValidatingWebhookConfiguration", found[VALIDATING_WEBHOOKS]),
        ),
        {
            _key(lease): lease["spec"]["holderIdentity"]
            for lease in found[LEASES]
            if lease["metadata"]["name"] in LEASE_NAMES and lease.get("spec", {}).get("holderIdentity")
        },
        {
            (_key(each), file): text
            for each in found[CONFIG_MAPS]
            for file, text in (each.get("data") or {}).items()
            if file in CONFIGURATIONS
        },
        {kind.kind: Counter(sorted(_phase(each) for each in found[kind])) for kind in COUNTED if found[kind]},
        tuple(sorted(_services(found[SERVICES], found[DEPLOYMENTS]))),
        {each["metadata"]["name"]: (each.get("spec") or {}).get("capability") or {} for each in found[QUEUES]},
    )


async def _list(client: Client, kind: ResourceType) -> list[Json]:
    try:
        return (await client.list(kind))[0]
    except NotFound:
        return []


def _programs(deployments: Sequence[Json]) -> list[Program]:
    found = []
    for deployment in deployments:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            name = _program(container)
            if name:
                arguments = (*container.get("command", ()), *container.get("args", ()))
                replicas = deployment["spec"].get("replicas", 1)
                found.append(Program(_key(deployment), name, container.get("image", ""), replicas, _words(arguments)))
    return found


def _services(services: Sequence[Json], deployments: Sequence[Json]) -> list[Key]:
    """Return the Services that select pods of Volcano's programs."""
    templates = [(_key(each).namespace, each["spec"]["template"]) for each in deployments if _programs([each])]
    labels = [(namespace, template["metadata"].get("labels") or {}) for namespace, template in templates]
    return [
        _key(service)
        for service in services
        if (chosen := service["spec"].get("selector"))
        and any(namespace == _key(service).namespace and chosen.items() <= labelled.items() for namespace, labelled in labels)
    ]


def _program(container: Mapping[str, Any]) -> str:
    """Return the program of Volcano that a container runs, by its image. Empty when it runs none."""
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return image if image in PROGRAMS else ""


def _words(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments one by one, because a manifest may have all of them in one `sh -c` text."""
    return tuple(word for argument in arguments for word in argument.split())


def _webhooks(kind: str, configurations: Sequence[Json]) -> list[WebhookConfiguration]:
    found = []
    for each in configurations:
        rules = [rule for webhook in each.get("webhooks", ()) for rule in webhook.get("rules", ())]
        groups = {group for rule in rules for group in rule.get("apiGroups", ())}
        name = each["metadata"]["name"]
        if (each["metadata"].get("labels") or {}).get("app.kubernetes.io/name") == "pyroclast":
            continue
        if any(group.endswith(GROUP_SUFFIX) for group in groups) or name.startswith("volcano-admission-service"):
            clients = [webhook["clientConfig"] for webhook in each.get("webhooks", ())]
            found.append(WebhookConfiguration(kind, name, tuple(sorted({_address(client) for client in clients}))))
    return sorted(found, key=lambda configuration: configuration.name)


def _address(client: Mapping[str, Any]) -> str:
    service = client.get("service")
    return f"{service['namespace']}/{service['name']}" if service else str(client.get("url", ""))


def _phase(item: Mapping[str, Any]) -> str:
    status = item.get("status") or {}
    state = status.get("state")
    phase = status.get("phase") or (state.get("phase") if isinstance(state, dict) else state)
    return str(phase or "no phase yet")


def _key(item: Mapping[str, Any]) -> Key:
    return Key(item["metadata"].get("namespace", ""), item["metadata"]["name"])
