"""Rules of HyperJob: its Jobs must have valid names and specs, and be so few that the installation can run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, duplicate, invalid, unsupported
from pyroclast.rules.jobs import check_template_spec
from pyroclast.rules.jobs.tasks import total_replicas
from pyroclast.rules.lookups import ANY_JOB, JobOptions
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.names import qualified_name
from pyroclast.rules.values import integer, mapping, mappings, optional_integer, text
from pyroclast.rules.verdicts import ALLOWED, Finding, Verdict, untold, verdict_of

MOST_JOBS: Final = 10_000
"""The most Jobs of a HyperJob, because their phases must fit into an object of 1.5 MB."""


def validate(hyper_job: Mapping[str, Any], options: JobOptions = ANY_JOB, *, old: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict on a new HyperJob, or on changing `old`."""
    spec, name = mapping(hyper_job.get("spec")), text(mapping(hyper_job.get("metadata")).get("name"))
    if old is not None and same_meaning(spec, mapping(old.get("spec"))):
        return ALLOWED
    return verdict_of([*_check_entries(spec, name, options), *(untold(error) for error in _check_sums(spec, options))])


def _check_entries(spec: Mapping[str, Any], name: str, options: JobOptions) -> Iterator[Finding]:
    names: set[str] = set()
    for index, entry in mappings(spec.get("replicatedJobs")):
        path, own, replicas = f"spec.replicatedJobs[{index}]", text(entry.get("name")), integer(entry.get("replicas"))
        last = f"{name}-{own}-{max(replicas - 1, 0)}"
        if own in names:
            yield untold(duplicate(f"{path}.name", own))
        names.add(own)
        if problems := qualified_name(last):
            yield untold(invalid(f"{path}.name", own, f"its last Job would be named {last}: {problems[0]}"))
        if replicas < 0:
            yield untold(invalid(f"{path}.replicas", replicas, "must be greater than or equal to 0"))
        if mapping(entry.get("splitPolicy")).get("mode") == "auto":
            yield untold(unsupported(f"{path}.splitPolicy.mode", "auto", ("static",)))
        template = mapping(entry.get("templateSpec"))
        for finding in check_template_spec(template, f"{path}.templateSpec", options, name=last, job_name=last):
            errors = tuple(finding.errors)
            sentence = "; ".join(map(str, errors)) or finding.sentence.strip()
            yield Finding(f"{sentence};", errors, extra=True)


def _check_sums(spec: Mapping[str, Any], options: JobOptions) -> Iterator[FieldError]:
    """Yield the faults of numbers of Jobs and pods, which are summed up and never counted one by one."""
    jobs = pods = 0
    for _, entry in mappings(spec.get("replicatedJobs")):
        given = optional_integer(entry.get("replicas"))
        replicas = max(1 if given is None else given, 0)
        jobs += replicas
        pods += replicas * total_replicas(task for _, task in mappings(mapping(entry.get("templateSpec")).get("tasks")))
    if jobs > MOST_JOBS:
        yield invalid("spec.replicatedJobs", jobs, f"{jobs} Jobs are asked for; a HyperJob may have at most {MOST_JOBS}")
    if pods > options.max_pods:
        why = f"the Jobs would have {pods} pods together; one HyperJob may have at most {options.max_pods}"
        yield invalid("spec.replicatedJobs", pods, why)
    least = optional_integer(spec.get("minAvailable"))
    if least is not None and not 0 <= least <= jobs:
        yield invalid("spec.minAvailable", least, f"must be between 0 and the number of Jobs, which is {jobs}")
