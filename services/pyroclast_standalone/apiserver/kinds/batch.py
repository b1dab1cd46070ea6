"""Jobs and cron jobs of the batch group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.durations import human_duration, parse_time, since
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .cells import containers_of, selector_text
from .checks import choice, non_negative
from .cron import fault_of_schedule, fault_of_time_zone
from .job_checks import check_job, check_job_spec, check_job_update
from .job_status import check_job_status
from .pod_defaults import default_template
from .pod_warnings import warning_of
from .rules import AGE, NAME, Rules, age_of

__all__ = ["CRON_JOB", "JOB"]

_BATCH: Final = "io.k8s.api.batch.v1."
_LONGEST_NAME: Final = 52
_MAX_INT32: Final = 2**31 - 1


def _default_job_spec(spec: dict[str, Any]) -> None:
    default_template(spec["template"])
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def _default_job(document: dict[str, Any]) -> None:
    spec = document["spec"]
    _default_job_spec(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _prepare_job(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if spec.get("manualSelector"):
        return
    metadata = document["metadata"]
    template = spec["template"]["metadata"]
    labels = template.get("labels")
    if labels is None:
        labels = template["labels"] = {}
    is_short = not names.label_value(metadata.get("name", ""))
    if (not metadata.get("labels") and is_short) or metadata.get("labels") == labels:
        metadata["labels"] = labels  # labels taken over from the template follow it
    for key, value in (("job-name", metadata.get("name", "")), ("controller-uid", metadata.get("uid", ""))):
        labels.setdefault(key, value)
        labels.setdefault(f"batch.kubernetes.io/{key}", value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", metadata.get("uid", ""))


def _job_state(document: Mapping[str, Any]) -> str:
    met = {each.get("type") for each in (document.get("status") or {}).get("conditions") or () if each.get("status") == "True"}
    if "Complete" in met:
        return "Complete"
    if "Failed" in met:
        return "Failed"
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((name for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if name in met), "Running")


def _completions(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    started, ended = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    duration = "" if started is None else human_duration((ended if ended is not None else now) - started)
    return [
        document["metadata"]["name"],
        _job_state(document),
        _completions(spec, status),
        duration,
        age_of(document, now),
        *containers_of(spec["template"]["spec"]),
        selector_text(spec.get("selector")),
    ]


def _successful(document: Mapping[str, Any]) -> str:
    return str((document.get("status") or {}).get("succeeded", 0))


_CONTAINERS: Final = Column("Containers", priority=1, description="Names of the containers in the template.")
_IMAGES: Final = Column("Images", priority=1, description="Images of the containers in the template.")


JOB: Final = Rules(
    metadata_checks=4,
    warnings=warning_of("spec", "template", names_pods=True),
    default=_default_job,
    check=check_job,
    check_update=check_job_update,
    check_status=check_job_status,
    prepare=_prepare_job,
    fields={"status.successful": _successful},
    generation=True,
    columns=(
        NAME,
        Column("Status", description="What the job is doing."),
        Column("Completions", doc=f"{_BATCH}JobStatus.succeeded"),
        Column("Duration", description="How long it took, or has taken so far."),
        AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", priority=1, doc=f"{_BATCH}JobSpec.selector"),
    ),
    cells=_job_cells,
)


def _default_cron_job(document: dict[str, Any]) -> None:
    spec = document["spec"]
    _default_job_spec(spec["jobTemplate"]["spec"])
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _check_schedule(spec: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[FieldError]:
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        return [required("spec.schedule")]
    fault = fault_of_schedule(schedule)
    errors = [invalid("spec.schedule", schedule, fault)] if fault else []
    was_in_schedule = "TZ" in (before or {}).get("schedule", "")
    if "TZ" in schedule and not was_in_schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid("spec.schedule", schedule, text))
    elif "TZ" in schedule and zone is not None:
        errors.append(invalid("spec.schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
    return errors


def _check_cron_spec(spec: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[FieldError]:
    errors = [*_check_schedule(spec, before), *non_negative(spec, ("startingDeadlineSeconds",), "spec")]
    zone = spec.get("timeZone")
    if zone is not None and (before is None or before.get("timeZone") != zone) and (fault := fault_of_time_zone(zone)):
        errors.append(invalid("spec.timeZone", zone, fault))
    errors += choice(spec, "concurrencyPolicy", ("Allow", "Forbid", "Replace"), "spec")
    own, job = "spec.jobTemplate.spec", spec["jobTemplate"]["spec"]
    errors += check_job_spec(job, own)
    if job.get("selector") is not None:
        errors.append(invalid(f"{own}.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(unsupported(f"{own}.manualSelector", value=True, supported=["nil", "false"]))
    return [*errors, *non_negative(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")]


def _check_cron_job(document: dict[str, Any]) -> list[FieldError]:
    errors = _check_cron_spec(document["spec"], None)
    if len(name := document["metadata"].get("name") or "") > _LONGEST_NAME:
        errors.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    return errors


def _cron_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    last = status.get("lastScheduleTime")
    return [
        document["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        since(last, now) if last else "<none>",
        age_of(document, now),
        *containers_of(spec["jobTemplate"]["spec"]["template"]["spec"]),
        selector_text(spec["jobTemplate"]["spec"].get("selector")),
    ]


CRON_JOB: Final = Rules(
    warnings=warning_of("spec", "jobTemplate", "spec", "template", names_pods=True),
    default=_default_cron_job,
    check=_check_cron_job,
    check_update=lambda new, old: _check_cron_spec(new["spec"], old["spec"]),
    generation=True,
    columns=(
        NAME,
        Column("Schedule", doc=f"{_BATCH}CronJobSpec.schedule"),
        Column("Timezone", doc=f"{_BATCH}CronJobSpec.timeZone"),
        Column("Suspend", type="boolean", doc=f"{_BATCH}CronJobSpec.suspend"),
        Column("Active", type="integer", doc=f"{_BATCH}CronJobStatus.active"),
        Column("Last Schedule", doc=f"{_BATCH}CronJobStatus.lastScheduleTime"),
        AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", priority=1, doc=f"{_BATCH}JobSpec.selector"),
    ),
    cells=_cron_cells,
)
