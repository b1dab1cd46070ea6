"""Before any request: checks a Job by the schema and the rules, and asks the scheduler whether it would start now.

All faults are reported together. Nothing is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pyroclast.api import jobs as job_kind
from pyroclast.api.crds import custom_resource_definition
from pyroclast.kube.http import servers
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.waiting_queries import schedulers_at_work
from pyroclast.rules import jobs
from pyroclast.rules.lookups import OpenQueues
from pyroclast.rules.schema_check import schema_faults
from pyroclast.rules.verdicts import applied
from pyroclast.views.explanation import explanation_lines, unserved
from pyroclast.views.jobs import absence_of
from pyroclast_client.documents import label_of
from pyroclast_client.errors import Cause, NoCluster, Rejected


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a Job would start now. In a condition the object is true if the Job would start.

    Attributes:
        job: NAMESPACE/NAME of the Job.
        queue: the queue of the Job.
        code: the documented code of the reason why the Job would wait. Empty if it would start.
        sentence: the reason as a sentence.
        never: whether the Job could never start by waiting alone.
        help: the remedy.
        document: the complete result, as `vcctl fits -o json` prints it.
    """

    job: str
    queue: str
    code: str
    sentence: str
    never: bool
    help: str
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __bool__(self) -> bool:
        return not self.code

    def __str__(self) -> str:
        return "\n".join(explanation_lines(self.document, verb="would wait"))


async def fit_of(kube: Client, job: Mapping[str, Any]) -> Fit:
    """Return the result of the scheduler's trial of `job`, whose defaults are set.

    Raises:
        NoCluster: the scheduler gives no answer.
    """
    document: Mapping[str, Any] | None
    if absence := absence_of(job, await schedulers_at_work(kube)):
        document = unserved(job, absence, kube.now())
    else:
        answer = await servers.explained(kube, await servers.explainers(kube), "fits", body=job)
        document = answer.document
        if answer.is_refused:
            raise Rejected(f"{answer.complaint}. Correct that and try again")
        if document is None:
            why = answer.complaint or "no address of it is known: set PYROCLAST_BOARD to the URL of the board"
            raise NoCluster(f"only the scheduler can try a Job, and it gives no answer; {why}")
    name, code, remedy = f"{job['metadata']['namespace']}/{job['metadata']['name']}", document["code"], document.get("help")
    return Fit(name, document["queue"], code or "", document["sentence"], document["never"], remedy or "", document)


def checked_job(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Check a Job. Return the warnings when the Job is valid."""
    causes = [_cause(fault) for fault in schema_faults(document, _schema())]
    if not causes:  # the rules need values of the schema's types
        verdict = jobs.validate_create(applied(document, jobs.default(document)), OpenQueues({}))
        if verdict.allowed:
            return verdict.warnings
        causes = [Cause(error.path, error.body) for error in verdict.causes] or [Cause("", verdict.message)]
    said = "; ".join(str(cause) for cause in causes)
    raise Rejected(f"{label_of(document)} breaks rules: {said}. Correct that and submit it again", causes)


def checked_spec(spec: Mapping[str, Any], what: str) -> None:
    """Check a spec from which Jobs will be created."""
    causes = [_cause(fault) for fault in schema_faults({"spec": spec}, _schema())]
    if not causes:
        findings = jobs.check_template_spec(spec, "spec", name=what)
        causes = [Cause(error.path, error.body) for finding in findings for error in finding.errors]
    if causes:
        raise Rejected(f"{what} breaks rules: {'; '.join(map(str, causes))}. Correct that and submit it again", causes)


@cache
def _schema() -> Mapping[str, Any]:
    (version,) = custom_resource_definition(job_kind.KIND)["spec"]["versions"]
    schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _cause(fault: str) -> Cause:
    path, _, text = fault.partition(": ")
    return Cause(path, text)
