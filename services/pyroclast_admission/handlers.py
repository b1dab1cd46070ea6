"""The webhooks: one small function for each, which passes a request to its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TypeAlias

from msgspec import structs

from pyroclast.api.types import (
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    COMMANDS,
    COMPOSITE_POD_GROUPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HYPER_JOBS,
    HYPER_NODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    NATIVE_POD_GROUPS,
    POD_GROUPS,
    PODS,
    QUEUES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    ResourceType,
)
from pyroclast.rules import (
    commands,
    cronjobs,
    hyperjobs,
    hypernodes,
    jobflows,
    jobs,
    jobtemplates,
    podgroups,
    pods,
    queue_access,
    queues,
    submitters,
)
from pyroclast.rules.jobs.defaults import default_warnings
from pyroclast.rules.jobs.warnings import class_warnings, scheduler_warnings
from pyroclast.rules.lookups import JobOptions, queue_warnings
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.values import Json, mapping
from pyroclast.rules.verdicts import ALLOWED, Patch, Verdict, denied
from pyroclast_admission.known import Known
from pyroclast_admission.review import Answer, Review, refusal

Handler: TypeAlias = Callable[[Review, Known], Answer]


class Mode(Enum):
    """Whether a webhook changes objects or only accepts and denies them."""

    MUTATING = "mutating"
    VALIDATING = "validating"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook at `path`, which the API server calls for `operations`.

    `unexpected`: the message that denies any other operation; empty allows it. `is_advice`: it only warns, and so never
    delays or denies a request. `is_authorized`: the rights of the user are checked first; for an update, they were checked at
    the creation. `is_optional`: it is off by default. `uses_queues`: the object belongs to queues, which its namespace and
    its user must be allowed to use. `others`: further kinds for which it is called, in any version.
    """

    path: str
    name: str
    resource: ResourceType
    operations: tuple[str, ...]
    unexpected: str
    handle: Handler
    is_advice: bool = False
    is_authorized: bool = False
    is_optional: bool = False
    uses_queues: bool = False
    others: tuple[ResourceType, ...] = ()

    @property
    def mode(self) -> Mode:
        """What the webhook does, which its path tells."""
        return Mode.VALIDATING if self.path.endswith("/validate") else Mode.MUTATING

    def configuration(self, service: str) -> str:
        """Return the name of the webhook configuration object. `service`: the name of the Service of the webhooks."""
        return f"{service}{self.path.replace('/', '-')}"


def answer(webhook: Webhook, review: Review, known: Known) -> Answer:
    """Return the answer of `webhook`. A request for another resource or operation is denied with Volcano's message."""
    resource = webhook.resource
    expected = f"{resource.group} {resource.version} {resource.plural}"
    if review.resource != expected and not any(kind.qualified == review.qualified for kind in webhook.others):
        return Answer(denied(f"expect resource to be {{{expected}}}"))
    if review.operation not in webhook.operations:
        return Answer(denied(webhook.unexpected.format(review.operation)) if webhook.unexpected else ALLOWED)
    result = webhook.handle(review, known)
    return _with_queues(result, review, known) if webhook.uses_queues and result.verdict.allowed else result


def _with_queues(result: Answer, review: Review, known: Known) -> Answer:
    """Return `result` with the queues whose use is to be checked, or the denial of a queue for other namespaces.

    Where a program of ours or of Kubernetes creates an object for an owner, the user was checked when the owner was written.
    """
    is_ours = submitters.is_ours(review.user, known.options.namespace)
    if review.operation == "DELETE" or (is_ours and review.qualified != JOBS.qualified):
        return result
    namespace = review.namespace
    used = queue_access.newly_used(review.qualified, review.object, review.previous, namespace, known.flow_knowledge)
    verdict = queue_access.check_use(used, review.object, namespace, known.queues)
    if not verdict.allowed:
        return Answer(verdict)
    return result if is_ours or review.user in _WORKLOAD_CONTROLLERS else structs.replace(result, queues=used)


def _default_job(review: Review, known: Known) -> Answer:
    patch = [*jobs.default(review.object, scheduler_name=_scheduler(known)), *_stamp(review, known)]
    return Answer(Verdict(warnings=default_warnings(review.object)), patch)


def _restore_job(review: Review, known: Known) -> Answer:
    defaults = jobs.default_update(review.object, review.old_object, scheduler_name=_scheduler(known))
    return Answer(patch=[*defaults, *_stamp(review, known)])


def _job_options(review: Review, known: Known) -> JobOptions:
    options = known.options.jobs
    return replace(options, forbids_class=partial(known.forbidding, review.namespace)) if known.forbidding else options


def _scheduler(known: Known) -> str:
    names = known.options.scheduler_names
    return names[0] if names else "volcano"


def _write_submitter(review: Review, known: Known) -> Answer:
    return Answer(patch=_stamp(review, known))


def _stamp(review: Review, known: Known) -> Patch:
    if review.operation == "UPDATE":
        return submitters.restore(review.object, review.old_object)
    return submitters.stamp(review.object, review.user, ours=submitters.is_ours(review.user, known.options.namespace))


def _guarded(handler: Handler) -> Handler:
    """Return `handler` behind the check that no user changes the recorded submitter or the class of service."""

    def handle(review: Review, known: Known) -> Answer:
        if review.operation != "DELETE":
            ours = submitters.is_ours(review.user, known.options.namespace)
            verdict = submitters.validate(review.object, review.previous, review.user, ours=ours)
            has_class = review.qualified in {JOBS.qualified, POD_GROUPS.qualified}
            if verdict.allowed and has_class and review.previous is not None and not ours:
                verdict = queue_access.check_class(review.object, review.previous)
            if not verdict.allowed:
                return Answer(verdict)
        return handler(review, known)

    return handle


@_guarded
def _check_job(review: Review, known: Known) -> Answer:
    if review.operation == "UPDATE":
        return Answer(jobs.validate_update(review.object, review.old_object, _job_options(review, known)))
    verdict = jobs.validate_create(review.object, known.queues, _job_options(review, known))
    is_ours = submitters.is_ours(review.user, known.options.namespace)
    if verdict.allowed and known.waiting is not None and not is_ours:
        try:
            if fault := queue_access.check_waiting(review.object, known.queues, known.waiting):
                return refusal(fault, code=403, reason="Forbidden")
        except queue_access.WaitingUnknown as error:
            return refusal(str(error), code=503, reason="ServiceUnavailable", retry_after_seconds=1)
    return Answer(_with_warnings(verdict, review.object.get("spec"), "spec", known))


def _with_warnings(verdict: Verdict, spec: Json, path: str, known: Known) -> Verdict:
    """Return the verdict on a Job, or on a template of Jobs, with a warning for each missing PriorityClass and scheduler."""
    classes = class_warnings(mapping(spec), path, known.priority_classes)
    schedulers = scheduler_warnings(mapping(spec), path, known.schedulers, known.options.scheduler_names)
    return replace(verdict, warnings=(*verdict.warnings, *classes, *schedulers))


def _default_pod_group(review: Review, known: Known) -> Answer:
    return Answer(patch=podgroups.default(review.object, known.annotations_of(review.namespace)))


def _restore_pod_group(review: Review, known: Known) -> Answer:
    annotations = known.annotations_of(review.namespace)
    return Answer(patch=podgroups.default_update(review.object, review.old_object, annotations))


@_guarded
def _check_pod_group(review: Review, known: Known) -> Answer:
    if review.operation == "UPDATE":
        return Answer(podgroups.validate_update(review.object, review.old_object, known.queues))
    return Answer(podgroups.validate_create(review.object, known.queues))


def _default_queue(review: Review, _: Known) -> Answer:
    return Answer(patch=queues.default(review.object))


def _check_queue(review: Review, known: Known) -> Answer:
    limits = known.options.queue_limits
    if review.operation == "DELETE":
        return Answer(queues.validate_delete(review.name, known.queues, limits))
    is_recorder = queues.is_recorder(review.user, known.options.namespace)
    verdict = queues.validate_recorded(review.object, review.previous, is_from_recorder=is_recorder)
    if not verdict.allowed:
        return Answer(verdict)
    if review.operation == "UPDATE":
        return Answer(queues.validate_update(review.object, review.old_object, known.queues, limits))
    return Answer(queues.validate_create(review.object, known.queues, limits))


@_guarded
def _check_cron_job(review: Review, known: Known) -> Answer:
    verdict = cronjobs.validate(review.object, known.time_zones, _job_options(review, known), old=review.previous)
    template = mapping(mapping(review.object.get("spec")).get("jobTemplate"))
    return Answer(_with_warnings(verdict, template.get("spec"), "spec.jobTemplate.spec", known))


@_guarded
def _check_hyper_job(review: Review, known: Known) -> Answer:
    return Answer(hyperjobs.validate(review.object, _job_options(review, known), old=review.previous))


def _check_hyper_node(review: Review, _: Known) -> Answer:
    return Answer(hypernodes.validate(review.object))


def _default_pod(review: Review, known: Known) -> Answer:
    gates = known.options.queue_gates
    return Answer(patch=pods.default(review.object, namespace=review.namespace, groups=known.resource_groups, queue_gates=gates))


def _check_pod(review: Review, known: Known) -> Answer:
    return Answer(pods.validate_create(review.object, known.options.scheduler_names))


@_guarded
def _check_flow(review: Review, known: Known) -> Answer:
    if review.operation == "DELETE":
        guarded = _is_guarded(review, known)
        return Answer(jobflows.validate_delete(review.old_object, review.name)) if guarded else Answer()
    about = known.flow_knowledge, _job_options(review, known)
    if review.operation == "UPDATE":
        return Answer(jobflows.validate_update(review.object, review.old_object, *about))
    return Answer(jobflows.validate_create(review.object, *about))


def _check_template(review: Review, known: Known) -> Answer:
    if review.operation == "DELETE":
        if not _is_guarded(review, known):
            return Answer()
        flows = known.flows(review.namespace, review.name)
        return Answer(jobtemplates.validate_delete(review.old_object, review.name, flows))
    if review.operation == "UPDATE" and same_meaning(review.object.get("spec"), review.old_object.get("spec")):
        return Answer()
    verdict = jobtemplates.validate(review.object, known.queues, _job_options(review, known))
    return Answer(_with_warnings(verdict, review.object.get("spec"), "spec", known))


def _mark_command(review: Review, _: Known) -> Answer:
    verdict = commands.validate(review.object)
    return Answer(verdict, commands.mark(review.object, review.user) if verdict.allowed else [])


def _check_command(review: Review, _: Known) -> Answer:
    if review.operation == "UPDATE":
        return Answer(commands.validate_update(review.object, review.old_object))
    verdict = commands.validate(review.object)
    return Answer(verdict if not verdict.allowed else commands.validate_mark(review.object))


def _warn_of_queues(review: Review, known: Known) -> Answer:
    return Answer(queue_warnings(review.object, known.queues))


def _allow(_: Review, __: Known) -> Answer:
    return Answer()


def _is_guarded(review: Review, known: Known) -> bool:
    """Whether the deletion must be checked. Deletions by the garbage collector and the namespace controller are never checked."""
    return known.options.guard_flows and review.user not in _CLEANERS


_CLEANERS = frozenset(
    {
        "system:serviceaccount:kube-system:namespace-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
    }
)

_WORKLOAD_CONTROLLERS = frozenset(
    {
        "system:kube-controller-manager",
        *(
            f"system:serviceaccount:kube-system:{name}-controller"
            for name in ("cronjob", "daemon-set", "deployment", "job", "replicaset", "replication", "statefulset")
        ),
    }
)
"""The users that create pods and groups for the workloads of Kubernetes."""

_CREATE = ("CREATE",)
_UPDATE = ("UPDATE",)
_WRITE = ("CREATE", "UPDATE")
_ALL = ("CREATE", "UPDATE", "DELETE")

_ONLY_CREATE = "expect operation to be 'CREATE' "
_ONLY_UPDATE = "expect operation to be 'UPDATE'"
_CREATE_OR_UPDATE = "expect operation to be 'CREATE' or 'UPDATE'"
_INVALID = "invalid operation `{}`, expect operation to be `CREATE`"
_INVALID_FOR_QUEUE = "invalid operation `{}`, expect operation to be `CREATE`, `UPDATE` or `DELETE`"

WEBHOOKS: tuple[Webhook, ...] = (
    Webhook("/jobs/mutate", "mutatejob.volcano.sh", JOBS, _CREATE, _ONLY_CREATE, _default_job),
    Webhook("/jobs/restore", "restorejob.volcano.sh", JOBS, _UPDATE, _ONLY_UPDATE, _restore_job),
    Webhook("/jobs/validate", "validatejob.volcano.sh", JOBS, _WRITE, _CREATE_OR_UPDATE, _check_job, uses_queues=True),
    Webhook("/cronjobs/mutate", "mutatecronjob.volcano.sh", CRON_JOBS, _WRITE, _ONLY_CREATE, _write_submitter),
    Webhook(
        "/cronjobs/validate",
        "validatecronjob.volcano.sh",
        CRON_JOBS,
        _WRITE,
        _CREATE_OR_UPDATE,
        _check_cron_job,
        uses_queues=True,
    ),
    Webhook("/podgroups/mutate", "mutatepodgroup.volcano.sh", POD_GROUPS, _CREATE, _INVALID, _default_pod_group),
    Webhook("/podgroups/restore", "restorepodgroup.volcano.sh", POD_GROUPS, _UPDATE, _ONLY_UPDATE, _restore_pod_group),
    Webhook(
        "/podgroups/validate",
        "validatepodgroup.volcano.sh",
        POD_GROUPS,
        _WRITE,
        "unsupported operation {}",
        _check_pod_group,
        uses_queues=True,
    ),
    Webhook("/queues/mutate", "mutatequeue.volcano.sh", QUEUES, _CREATE, _INVALID, _default_queue),
    Webhook("/queues/validate", "validatequeue.volcano.sh", QUEUES, _ALL, _INVALID_FOR_QUEUE, _check_queue),
    Webhook("/pods/mutate", "mutatepod.volcano.sh", PODS, _CREATE, _ONLY_CREATE, _default_pod),
    Webhook("/pods/validate", "validatepod.volcano.sh", PODS, _CREATE, _ONLY_CREATE.strip(), _check_pod),
    Webhook("/hyperjobs/mutate", "mutatehyperjob.pyroclast.dev", HYPER_JOBS, _WRITE, _CREATE_OR_UPDATE, _write_submitter),
    Webhook(
        "/hyperjobs/validate",
        "validatehyperjob.pyroclast.dev",
        HYPER_JOBS,
        _WRITE,
        _CREATE_OR_UPDATE,
        _check_hyper_job,
        uses_queues=True,
    ),
    Webhook("/hypernodes/validate", "validatehypernode.volcano.sh", HYPER_NODES, _WRITE, "", _check_hyper_node),
    Webhook("/jobflows/mutate", "mutatejobflow.volcano.sh", JOB_FLOWS, _WRITE, _ONLY_CREATE, _write_submitter),
    Webhook(
        "/jobflows/validate", "validatejobflow.volcano.sh", JOB_FLOWS, _ALL, _CREATE_OR_UPDATE, _check_flow, uses_queues=True
    ),
    Webhook(
        "/jobtemplates/validate",
        "validatejobtemplate.volcano.sh",
        JOB_TEMPLATES,
        _ALL,
        _CREATE_OR_UPDATE,
        _check_template,
        uses_queues=True,
    ),
    Webhook(
        "/commands/mutate", "mutatecommand.pyroclast.dev", COMMANDS, _CREATE, _ONLY_CREATE, _mark_command, is_authorized=True
    ),
    Webhook("/commands/validate", "validatecommand.volcano.sh", COMMANDS, _WRITE, "", _check_command, is_authorized=True),
    Webhook("/ownedjobs/validate", "validateownedjob.pyroclast.dev", JOBS, _CREATE, "", _allow, is_authorized=True),
    Webhook(
        "/ownedpods/validate",
        "validateownedpod.pyroclast.dev",
        PODS,
        _CREATE,
        "",
        _allow,
        is_authorized=True,
        is_optional=True,
    ),
    Webhook("/batchjobs/validate", "warnofjob.pyroclast.dev", BATCH_JOBS, _CREATE, "", _warn_of_queues, is_advice=True),
    Webhook(
        "/nativegroups/validate",
        "warnofpodgroup.pyroclast.dev",
        NATIVE_POD_GROUPS,
        _CREATE,
        "",
        _warn_of_queues,
        is_advice=True,
    ),
    Webhook(
        "/workloads/validate",
        "validatequeueuse.pyroclast.dev",
        PODS,
        _WRITE,
        "",
        _allow,
        uses_queues=True,
        others=(
            NATIVE_POD_GROUPS,
            COMPOSITE_POD_GROUPS,
            BATCH_JOBS,
            BATCH_CRON_JOBS,
            DEPLOYMENTS,
            REPLICA_SETS,
            STATEFUL_SETS,
            DAEMON_SETS,
            REPLICATION_CONTROLLERS,
        ),
    ),
)
