"""Rules of JobTemplate: its spec must be valid for a Job, and a template in use must not be deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyroclast.api.keys import FORCE_DELETE
from pyroclast.rules.jobs import check_template_spec
from pyroclast.rules.jobs.defaults import DEFAULT_QUEUE
from pyroclast.rules.jobs.warnings import spec_warnings
from pyroclast.rules.lookups import ANY_JOB, FlowView, JobOptions, QueueLookup, queue_not_found
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import ALLOWED, Verdict, denied, verdict_of

SHOWN_FLOWS = 3


def validate(template: Mapping[str, Any], queues: QueueLookup, options: JobOptions = ANY_JOB) -> Verdict:
    """Return the verdict on a new or changed JobTemplate. A missing or closed queue, which may open later, is a warning."""
    spec = mapping(template.get("spec"))
    name = text(mapping(template.get("metadata")).get("name"))
    findings = check_template_spec(spec, "spec", options, name=name)
    queue_name = text(spec.get("queue")) or DEFAULT_QUEUE
    queue = queues.get(queue_name)
    warnings = list(spec_warnings(spec, "spec", queue))
    if queue is None:
        warnings.append(f"spec.queue: {queue_not_found(queue_name)}; jobs will be refused until it is there")
    elif not queue.is_open:
        warnings.append(f"spec.queue: queue {queue_name} is {queue.state}; jobs will be refused until it is Open")
    return verdict_of(findings, warnings=tuple(warnings))


def validate_delete(template: Mapping[str, Any], name: str, flows: Sequence[FlowView]) -> Verdict:
    """Return the verdict on deleting the template of that name. `flows`: the flows that use the template."""
    metadata = mapping(template.get("metadata"))
    if text(mapping(metadata.get("annotations")).get(FORCE_DELETE)) == "true" or metadata.get("deletionTimestamp"):
        return ALLOWED
    running = [flow for flow in flows if not flow.is_complete]
    if not running:
        return ALLOWED
    names = ", ".join(sorted(flow.name for flow in running)[:SHOWN_FLOWS])
    more = f" and {len(running) - SHOWN_FLOWS} more" if len(running) > SHOWN_FLOWS else ""
    return denied(
        f"jobtemplate {name} can not be deleted because JobFlows that are not complete use it: {names}{more}; wait for them, "
        f'delete them, or annotate the template with {FORCE_DELETE}: "true" first'
    )
