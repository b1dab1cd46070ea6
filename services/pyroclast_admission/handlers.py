"""From a request to the rules that decide it: one small function per webhook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pyroclast.api.types import JOBS, POD_GROUPS, QUEUES, ResourceType
from pyroclast.rules import jobs, podgroups, queues
from pyroclast.rules.verdicts import denied
from pyroclast_admission.known import Known
from pyroclast_admission.review import Answer, Review

__all__ = ["WEBHOOKS", "Mode", "Webhook", "answer"]

Handler: TypeAlias = Callable[[Review, Known], Answer]


class Mode(Enum):
    """What a webhook may do to a request."""

    MUTATING = "mutating"
    VALIDATING = "validating"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook. `name` is what the API server calls it in its messages; `operations` are those it is asked about."""

    path: str
    name: str
    mode: Mode
    resource: ResourceType
    operations: tuple[str, ...]
    unexpected: str
    handle: Handler

    @property
    def configuration(self) -> str:
        """Name of the webhook configuration object."""
        return f"volcano-admission-service{self.path.replace('/', '-')}"


def answer(webhook: Webhook, review: Review, known: Known) -> Answer:
    """The answer of `webhook`; requests about another resource or operation are denied in the original's words."""
    resource = webhook.resource
    expected = f"{resource.group} {resource.version} {resource.plural}"
    if review.resource != expected:
        return Answer(denied(f"expect resource to be {{{expected}}}"))
    if review.operation not in webhook.operations:
        return Answer(denied(webhook.unexpected.format(review.operation)))
    return webhook.handle(review, known)


def _default_job(review: Review, known: Known) -> Answer:
    names = known.options.scheduler_names
    return Answer(patch=jobs.default(review.object, scheduler_name=names[0] if names else "volcano"))


def _check_job(review: Review, known: Known) -> Answer:
    if review.operation == "UPDATE":
        return Answer(jobs.validate_update(review.object, review.old_object))
    return Answer(jobs.validate_create(review.object, known.queues, pod_level_resources=known.options.pod_level_resources))


def _default_pod_group(review: Review, known: Known) -> Answer:
    if not podgroups.takes_queue_of_namespace(review.object):
        return Answer()
    return Answer(patch=podgroups.default(review.object, known.namespaces.annotations(review.namespace)))


def _check_pod_group(review: Review, known: Known) -> Answer:
    return Answer(podgroups.validate_create(review.object, known.queues))


def _default_queue(review: Review, _: Known) -> Answer:
    return Answer(patch=queues.default(review.object))


def _check_queue(review: Review, known: Known) -> Answer:
    limits = known.options.queue_limits
    if review.operation == "DELETE":
        return Answer(queues.validate_delete(review.name, known.queues, limits))
    if review.operation == "UPDATE":
        return Answer(queues.validate_update(review.object, review.old_object, known.queues, limits))
    return Answer(queues.validate_create(review.object, known.queues, limits))


_ONLY_CREATE = "expect operation to be 'CREATE' "
_CREATE_OR_UPDATE = "expect operation to be 'CREATE' or 'UPDATE'"
_INVALID_OPERATION = "invalid operation `{}`, expect operation to be `CREATE`"
_INVALID_QUEUE_OPERATION = "invalid operation `{}`, expect operation to be `CREATE`, `UPDATE` or `DELETE`"

WEBHOOKS: tuple[Webhook, ...] = (
    Webhook("/jobs/mutate", "mutatejob.volcano.sh", Mode.MUTATING, JOBS, ("CREATE",), _ONLY_CREATE, _default_job),
    Webhook(
        "/jobs/validate", "validatejob.volcano.sh", Mode.VALIDATING, JOBS, ("CREATE", "UPDATE"), _CREATE_OR_UPDATE, _check_job
    ),
    Webhook(
        "/podgroups/mutate",
        "mutatepodgroup.volcano.sh",
        Mode.MUTATING,
        POD_GROUPS,
        ("CREATE",),
        _INVALID_OPERATION,
        _default_pod_group,
    ),
    Webhook(
        "/podgroups/validate",
        "validatepodgroup.volcano.sh",
        Mode.VALIDATING,
        POD_GROUPS,
        ("CREATE",),
        "unsupported operation {}",
        _check_pod_group,
    ),
    Webhook("/queues/mutate", "mutatequeue.volcano.sh", Mode.MUTATING, QUEUES, ("CREATE",), _INVALID_OPERATION, _default_queue),
    Webhook(
        "/queues/validate",
        "validatequeue.volcano.sh",
        Mode.VALIDATING,
        QUEUES,
        ("CREATE", "UPDATE", "DELETE"),
        _INVALID_QUEUE_OPERATION,
        _check_queue,
    ),
)
