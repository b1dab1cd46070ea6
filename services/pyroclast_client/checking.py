"""Checks a Job by schema and rules before any request, so that all faults are told at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pyroclast.api import jobs as job_kind
from pyroclast.api.crds import custom_resource_definition
from pyroclast.rules import jobs
from pyroclast.rules.lookups import ROOT_QUEUE, QueueView
from pyroclast.rules.patches import applied
from pyroclast.rules.schema_check import schema_faults
from pyroclast_client.documents import label_of
from pyroclast_client.errors import Cause, Rejected

__all__ = ["checked_job", "checked_spec"]


class _AnyQueue:
    """Queues are the server's to know: each is taken to be there and open."""

    def get(self, name: str) -> QueueView | None:
        return QueueView(name, parent="" if name == ROOT_QUEUE else ROOT_QUEUE, state="Open")

    def children(self, name: str) -> Sequence[QueueView]:  # noqa: ARG002 - none is known
        return ()

    def all(self) -> Sequence[QueueView]:
        return ()


def checked_job(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The warnings about a Job that would be accepted.

    Raises:
        Rejected: what is wrong with it, with the path of each field.
    """
    causes = [_cause(fault) for fault in schema_faults(document, _schema())]
    if not causes:  # rules expect the types of the schema
        verdict = jobs.validate_create(applied(document, jobs.default(document)), _AnyQueue())
        if verdict.allowed:
            return verdict.warnings
        causes = [Cause(error.path, error.body) for error in verdict.causes] or [Cause("", verdict.message)]
    said = "; ".join(str(cause) for cause in causes)
    raise Rejected(f"{label_of(document)} breaks rules: {said}. Correct that and submit it again", causes)


def checked_spec(spec: Mapping[str, Any], what: str) -> None:
    """Check a spec that Jobs will be made of.

    Raises:
        Rejected: what is wrong with it, with the path of each field.
    """
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
