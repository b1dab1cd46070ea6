"""The arguments of the plugin extender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api import records
from pyroclast_scheduler.session.arguments import Arguments

VERBS: Final = (
    "onSessionOpen",
    "onSessionClose",
    "predicate",
    "prioritize",
    "preemptable",
    "reclaimable",
    "queueOverused",
    "jobEnqueueable",
    "jobEnqueued",
    "jobReady",
    "allocateFunc",
    "deallocateFunc",
)


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """The arguments of the plugin.

    Attributes:
        prefix: the common prefix of the URLs.
        timeout: for how many seconds a response is awaited.
        verbs: the last part of the URL of each configured hook.
        is_ignorable: whether decisions continue if the extender does not respond.
        managed: the resources that the extender manages; empty if it manages all pods.
    """

    prefix: str = ""
    timeout: float = 1.0
    verbs: Mapping[str, str] = field(default_factory=dict)
    is_ignorable: bool = False
    managed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, arguments: Arguments) -> ExtenderSettings:
        """Return the settings that the arguments of the plugin define."""
        arguments.known.add("extender.managedResources")
        managed = arguments.get("extender.managedResources") or []
        if not isinstance(managed, list) or not all(isinstance(each, str) for each in managed):
            arguments.warnings.append(f"argument extender.managedResources: {managed!r} is no list of names; it is passed over")
            managed = []
        verbs = {hook: arguments.text(f"extender.{hook}Verb", "") for hook in VERBS}
        return cls(
            arguments.text("extender.urlPrefix", "").rstrip("/"),
            arguments.seconds("extender.httpTimeout", "1s", least="1ms"),
            {hook: verb for hook, verb in verbs.items() if verb},
            arguments.boolean("extender.ignorable", default=False),
            frozenset(managed),
        )


def is_managed(spec: records.PodSpec, managed: frozenset[str]) -> bool:
    """Whether a pod requests or limits one of the `managed` resources. True for every pod if there are none."""
    if not managed:
        return True
    containers = (*spec.containers, *spec.init_containers)
    return any(managed & {*each.resources.requests, *each.resources.limits} for each in containers)
