"""Jobs and cron jobs of the batch group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.durations import human_duration, parse_time, since
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.selectors import from_label_selector
from pyroclast_standalone.apiserver.documents.tables import Column

from .cells import containers_of, selector_text
from .checks import choice, immutable, non_negative
from .pod_checks import check_template
from .pod_defaults import default_template
from .pod_warnings import warning_of
from .rules import AGE, NAME, Rules, age_of

__all__ = ["CRON_JOB", "JOB"]

_BATCH: Final = "io.k8s.api.batch.v1."
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES: Final = ("NonIndexed", "Indexed")
_MAX_INT32: Final = 2**31 - 1


def _default_job_spec(spec: dict[str, Any]) -> None:
    default_template(spec["template"])
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")


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
    own = metadata.get("labels")
    if own is not None and own == labels:
        metadata["labels"] = labels  # labels taken over from the template follow it
    for key, value in (("job-name", metadata.get("name", "")), ("controller-uid", metadata.get("uid", ""))):
        labels.setdefault(key, value)
        labels.setdefault(f"batch.kubernetes.io/{key}", value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", metadata.get("uid", ""))


def _check_job_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = non_negative(spec, _COUNTS, path)
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        errors.append(unsupported(f"{path}.completionMode", mode, _MODES))
    elif mode == "Indexed" and spec.get("completions") is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    elif mode != "Indexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(f"{path}.{field}", spec[field], "requires indexed completion mode"))
    errors += check_template(spec["template"], f"{path}.template")
    policy = spec["template"]["spec"].get("restartPolicy", "")
    own = f"{path}.template.spec.restartPolicy"
    if policy in {"", "Always"}:
        errors.append(required(own, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        errors.append(unsupported(own, policy, ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") and policy != "Never":
        errors.append(invalid(own, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return errors


def _check_job(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors = _check_job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        labels = spec["template"]["metadata"].get("labels") or {}
        if not from_label_selector(selector).matches(labels):
            errors.append(invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))
    return errors


def _update_job(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = _check_job(new)
    for field in ("completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        errors += immutable(new["spec"], old["spec"], field, f"spec.{field}")
    return errors


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
    warnings=warning_of("spec", "template"),
    default=_default_job,
    check=_check_job,
    check_update=_update_job,
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


def _check_cron_job(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.append(required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        found = len(schedule.split())
        errors.append(invalid("spec.schedule", schedule, f"expected exactly 5 fields, found {found}: [{schedule}]"))
    errors += non_negative(spec, ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
    errors += choice(spec, "concurrencyPolicy", ("Allow", "Forbid", "Replace"), "spec")
    errors += _check_job_spec(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    if len(document["metadata"].get("name") or "") > 52:
        errors.append(invalid("metadata.name", document["metadata"]["name"], "must be no more than 52 characters"))
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
    warnings=warning_of("spec", "jobTemplate", "spec", "template"),
    default=_default_cron_job,
    check=_check_cron_job,
    check_update=lambda new, _old: _check_cron_job(new),
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
