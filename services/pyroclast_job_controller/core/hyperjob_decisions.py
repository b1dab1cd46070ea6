"""Decides about a HyperJob: which Jobs are created and which are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyroclast.api import keys
from pyroclast.api.records import HyperJob, Job, Namespace
from pyroclast_job_controller.core.hyperjobs import HyperJobPart, Problem, has_ended, is_allowed, split


@dataclass(frozen=True, slots=True)
class HyperFacts:
    """The facts about a HyperJob at one moment.

    Attributes:
        jobs: its Jobs by name.
        is_empty: whether the watch shows none of its Jobs any more.
        namespaces: the namespaces that its entries name, by name. None for one that does not exist.
    """

    hyper_job: HyperJob
    jobs: Mapping[str, Job]
    is_empty: bool
    namespaces: Mapping[str, Namespace | None]


@dataclass(frozen=True, slots=True)
class HyperDecision:
    """The actions for a HyperJob, in this order: delete Jobs, write the finalizers, create the missing Jobs.

    Attributes:
        delete: the Jobs to delete.
        finalizers: the finalizers to write. None when they stay unchanged.
        missing: the Jobs to create, unless they have a problem.
        problems: the problem of each Job that cannot be created, by its name.
        problem: the problem of the HyperJob as a whole.
    """

    delete: tuple[Job, ...] = ()
    finalizers: tuple[str, ...] | None = None
    missing: tuple[HyperJobPart, ...] = ()
    problems: Mapping[str, Problem] | None = None
    problem: Problem | None = None


def decide(facts: HyperFacts) -> HyperDecision:
    """Return the decision that follows from the facts. A deleted HyperJob loses its finalizer after its last Job is gone."""
    hyper_job, meta = facts.hyper_job, facts.hyper_job.metadata
    if meta.is_terminating:
        if keys.HYPER_JOB_FINALIZER not in meta.finalizers:
            return HyperDecision()
        others = tuple(name for name in meta.finalizers if name != keys.HYPER_JOB_FINALIZER)
        return HyperDecision(_deletions(facts, frozenset()), others if facts.is_empty else None)
    parts = split(hyper_job)
    if isinstance(parts, Problem):
        return HyperDecision(problem=parts)
    missing = tuple(part for part in parts if part.name not in facts.jobs and not has_ended(hyper_job, part.name))
    obstacles = {name: _obstacle(hyper_job, name, facts.namespaces.get(name)) for name in {part.domain for part in missing}}
    is_apart = any(found is None and name != meta.namespace for name, found in obstacles.items())
    return HyperDecision(
        _deletions(facts, {part.name for part in parts}),
        (*meta.finalizers, keys.HYPER_JOB_FINALIZER) if is_apart and keys.HYPER_JOB_FINALIZER not in meta.finalizers else None,
        missing,
        {part.name: found for part in missing if (found := obstacles[part.domain]) is not None},
    )


def _deletions(facts: HyperFacts, wanted: frozenset[str] | set[str]) -> tuple[Job, ...]:
    return tuple(job for name, job in facts.jobs.items() if name not in wanted and not job.metadata.is_terminating)


def _obstacle(hyper_job: HyperJob, name: str, namespace: Namespace | None) -> Problem | None:
    """Return the reason why no Job of `hyper_job` can be created in the domain `name`. None when it can."""
    own = hyper_job.metadata.namespace
    if name == own:
        return None
    if namespace is None:
        text = f"{name} is no namespace of this cluster; other clusters cannot be used yet, so give namespaces"
        return Problem("ClusterNotSupported", text)
    if not is_allowed(hyper_job, namespace):
        annotation = f"training.volcano.sh/hyperjobs-from: {own}"
        return Problem("NamespaceNotAllowed", f"namespace {name} takes no HyperJobs from {own}; annotate it with {annotation}")
    if namespace.metadata.is_terminating:
        return Problem("NamespaceTerminating", f"namespace {name} is being deleted")
    return None
