"""Checks manifests by the rules of the admission webhooks, without a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.types import CRON_JOBS, HYPER_NODES, JOB_FLOWS, JOB_TEMPLATES, JOBS, POD_GROUPS, QUEUES, ResourceType
from pyroclast.lifecycle.flow.checks import EntryKnowledge
from pyroclast.rules import cronjobs, hypernodes, jobflows, jobs, jobtemplates, podgroups, queues
from pyroclast.rules.lookups import OpenQueues, QueueView
from pyroclast.rules.schema_check import schema_faults
from pyroclast.rules.verdicts import Verdict, applied
from pyroclast.runtime.time_zones import TimeZones

Document = Mapping[str, Any]
OURS: Final = ".volcano.sh"
NO_LIMITS: Final = queues.QueueLimits()


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings for one document. `name` is `Kind NAMESPACE/NAME`. Without faults, the document would be admitted."""

    name: str
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class _All(OpenQueues):
    """The queues of a cluster. Any other queue does not exist."""

    def get(self, name: str) -> QueueView | None:
        return self.known.get(name)


def check_manifests(documents: Iterable[Document], namespace: str) -> list[Checked]:
    """Return the verdict of the webhooks on each document of Pyroclast's kinds, in order.

    Documents may refer to Queues and JobTemplates of the same manifests. Other queues are treated as existing and open.
    """
    placed = [_placed(document, namespace) for document in documents]
    every = [document for document in placed if _is(document, QUEUES)]
    known_queues = OpenQueues({each["metadata"]["name"]: QueueView.of(each) for each in every})
    templates = {_key(each): each.get("spec") or {} for each in placed if _is(each, JOB_TEMPLATES)}
    known_templates = EntryKnowledge(lambda namespace, name: templates.get((namespace, name)))
    return [_check(document, known_queues, known_templates) for document in placed]


def admitted(job: Document, queues: Iterable[Document]) -> tuple[dict[str, Any], list[str]]:
    """Return a Job with its defaults, and the reasons why the webhooks would deny it. `queues` are all queues of the cluster."""
    kind = next(schema for api_version, each, schema in _schemas() if (api_version, each) == (JOBS.api_version, JOBS.kind))
    if faults := schema_faults(job, kind):
        return dict(job), list(faults)
    whole = applied(job, jobs.default(job))
    verdict = jobs.validate_create(whole, _All({each["metadata"]["name"]: QueueView.of(each) for each in queues}))
    return dict(whole), [] if verdict.allowed else [verdict.sentence.strip()]


def _check(document: Document, known_queues: OpenQueues, known_templates: EntryKnowledge) -> Checked:
    namespace, name = _key(document)
    kind = str(document.get("kind", ""))
    label = f"{kind or 'document'} {namespace}/{name}" if namespace else f"{kind or 'document'} {name}"
    group = str(document.get("apiVersion", "")).partition("/")[0]
    if not group.endswith(OURS):
        return Checked(label, warnings=(f"kind {kind} of {group or 'no group'} is not ours: it was not checked",))
    schema = next(
        (schema for api_version, each, schema in _schemas() if (api_version, each) == (document["apiVersion"], kind)), None
    )
    if schema is None:
        known = ", ".join(f"{each} of {api_version}" for api_version, each, _ in _schemas())
        return Checked(label, (f"kind: there is no {kind} of {document['apiVersion']}; there are {known}",))
    faults = schema_faults(document, schema)
    if faults:
        return Checked(label, tuple(faults))  # the rules need values of the schema's types
    rule = _rules(known_queues, known_templates).get((document["apiVersion"], kind))
    verdict = rule(document) if rule else Verdict()
    return Checked(label, (verdict.sentence,) if not verdict.allowed else (), verdict.warnings)


def _rules(known_queues: OpenQueues, known_templates: EntryKnowledge) -> dict[tuple[str, str], Callable[[Document], Verdict]]:
    def job(document: Document) -> Verdict:
        return jobs.validate_create(applied(document, jobs.default(document)), known_queues)

    rules: dict[ResourceType, Callable[[Document], Verdict]] = {
        JOBS: job,
        JOB_TEMPLATES: lambda document: jobtemplates.validate(document, known_queues),
        JOB_FLOWS: lambda document: jobflows.validate_create(document, known_templates),
        CRON_JOBS: lambda document: cronjobs.validate(document, TimeZones()),
        QUEUES: lambda document: queues.validate_create(applied(document, queues.default(document)), known_queues, NO_LIMITS),
        POD_GROUPS: lambda document: podgroups.validate_create(document, known_queues),
        HYPER_NODES: hypernodes.validate,
    }
    return {(kind.api_version, kind.kind): rule for kind, rule in rules.items()}


def _schemas() -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return API version, kind and schema of each kind of Pyroclast."""
    return [
        (f"{each['spec']['group']}/{version['name']}", each["spec"]["names"]["kind"], version["schema"]["openAPIV3Schema"])
        for each in custom_resource_definitions()
        for version in each["spec"]["versions"]
    ]


def _placed(document: Document, namespace: str) -> Document:
    """Return the document with metadata, and with a namespace if its kind is namespaced."""
    metadata = document.get("metadata") if isinstance(document.get("metadata"), dict) else {}
    is_global = any(_is(document, kind) for kind in (QUEUES, HYPER_NODES))
    placed = metadata if is_global else {"namespace": namespace, **(metadata or {})}
    return {**document, "metadata": {"name": "", **(placed or {})}}


def _key(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return str(metadata.get("namespace", "")), str(metadata.get("name") or metadata.get("generateName") or "")


def _is(document: Document, kind: ResourceType) -> bool:
    return document.get("apiVersion") == kind.api_version and document.get("kind") == kind.kind
