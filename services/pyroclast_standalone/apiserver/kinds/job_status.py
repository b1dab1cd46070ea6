"""Validation of the status of jobs, in the API's words: only what the request changes is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.durations import parse_time
from pyroclast_standalone.apiserver.documents.errors import OMITTED, FieldError, duplicate, invalid, required

from .checks import non_negative
from .job_indexes import count_indexes

__all__ = ["check_job_status"]

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_FINISHING: Final = ("Complete", "Failed")


def _met(status: Mapping[str, Any]) -> set[str]:
    return {each.get("type", "") for each in status.get("conditions") or () if each.get("status") == "True"}


def _check_uncounted(status: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate((status.get("uncountedTerminatedPods") or {}).get(field) or ()):
            own = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.append(invalid(own, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(own, uid))
            seen.add(uid)
    return errors


def _check_finish(status: Mapping[str, Any], met: set[str]) -> list[FieldError]:
    """What must be true of a job that has come to its end."""
    errors: list[FieldError] = []
    if not met & set(_FINISHING):
        return errors
    if status.get("active", 0) > 0:
        errors.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    if not status.get("startTime"):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted.get("succeeded") or uncounted.get("failed"):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        errors.append(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    if (status.get("terminating") or 0) > 0:
        errors.append(invalid("status.terminating", status["terminating"], "terminating>0 is invalid for finished job"))
    return errors


def _check_conditions(status: Mapping[str, Any], met: set[str], has_policy: bool) -> list[FieldError]:
    told: list[str] = []
    if met >= {"Complete", "Failed"}:
        told.append("cannot set Complete=True and Failed=true conditions")
    if met >= {"Complete", "FailureTarget"}:
        told.append("cannot set Complete=True and FailureTarget=true conditions")
    if "Failed" in met and "FailureTarget" not in met:
        told.append("cannot set Failed=True condition without the FailureTarget=true condition")
    if "Complete" in met and "SuccessCriteriaMet" not in met:
        told.append("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    told += [
        f"cannot set SuccessCriteriaMet=True and {other}=true conditions"
        for other in ("Failed", "FailureTarget")
        if met >= {"SuccessCriteriaMet", other}
    ]
    if has_policy and "Complete" in met and "SuccessCriteriaMet" not in met:
        told.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    errors = [invalid("status.conditions", OMITTED, text) for text in told]
    started, ended = status.get("startTime"), status.get("completionTime")
    if ended and "Complete" not in met:
        text = "cannot set completionTime when there is no Complete=True condition"
        errors.append(invalid("status.completionTime", ended, text))
    if not ended and "Complete" in met:
        errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if started and ended and (parse_time(ended) or 0) < (parse_time(started) or 0):
        errors.append(invalid("status.completionTime", ended, "must be equal to or after `startTime`"))
    return errors


def _check_indexes(spec: Mapping[str, Any], status: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex")
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    if done != before.get("completedIndexes", ""):
        fault = count_indexes(done, completions)[1] if completions is not None else ""
        if fault:
            errors.append(invalid("status.completedIndexes", done, f"error parsing completedIndexes: {fault}"))
        if done and spec.get("completionMode") != "Indexed":
            text = "cannot set non-empty completedIndexes when non-indexed completion mode"
            errors.append(invalid("status.completedIndexes", done, text))
    if failed is not None and failed != before.get("failedIndexes"):
        if per_index is None:
            text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            errors.append(invalid("status.failedIndexes", failed, text))
        elif completions is not None and (fault := count_indexes(failed, completions)[1]):
            errors.append(invalid("status.failedIndexes", failed, f"error parsing failedIndexes: {fault}"))
    return errors


def _check_counters(spec: Mapping[str, Any], status: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    scales = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    return [
        invalid(f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter")
        for field in ("failed", "succeeded")
        if status.get(field, 0) < before.get(field, 0) and not (field == "succeeded" and scales)
    ]


def check_job_status(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of a job's status."""
    spec, status, before = new["spec"], new.get("status") or {}, old.get("status") or {}
    errors = [*non_negative(status, _COUNTS, "status"), *_check_uncounted(status)]
    met = _met(status)
    changed = {field for field in {*status, *before} if status.get(field) != before.get(field)}
    if changed & {"conditions", "completionTime", "startTime"}:
        errors += _check_conditions(status, met, has_policy=spec.get("successPolicy") is not None)
    if changed & {"conditions", "active", "startTime", "uncountedTerminatedPods", "terminating"}:
        errors += _check_finish(status, met)
    errors += _check_indexes(spec, status, before)
    if changed & {"ready", "active"} and (status.get("ready") or 0) > status.get("active", 0):
        errors.append(invalid("status.ready", status["ready"], "cannot set more ready pods than active"))
    errors += _check_counters(spec, status, before)
    lost = [kind for kind in ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet") if kind in _met(before) - met]
    text = "cannot disable the terminal {}=True condition"
    errors += [invalid("status.conditions", OMITTED, text.format(kind)) for kind in lost]
    if before.get("completionTime") and "completionTime" in changed:
        errors.append(invalid("status.completionTime", status.get("completionTime"), "field is immutable"))
    return errors
