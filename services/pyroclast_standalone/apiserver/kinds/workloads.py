"""Kinds whose controllers do not run here. Their objects are stored with defaults, and a create returns a warning.

Frequent mistakes are rejected as by kube-apiserver: a selector that does not match the labels of the template or that changes, an
invalid pod template, and changes of immutable fields. Other values are stored without checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast.rules.podspecs import SERVER
from pyroclast.rules.podspecs.options import check_label_selector
from pyroclast.rules.podspecs.spec import check_pod_spec
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.documents.selectors import from_label_selector
from pyroclast_standalone.apiserver.kinds.rules import Check, Default, Rules, UpdateCheck, immutable

_NO_PODS: Final = "no pods will be made from this one"
_MISMATCH: Final = "`selector` does not match template `labels`"
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_STATEFUL_CHANGES: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _told(kinds: str, why: str) -> Callable[[Mapping[str, Any], Mapping[str, Any] | None], list[str]]:
    text = f"the embedded control plane stores {kinds} and runs nothing for them: {why}"
    return lambda _document, old: [text] if old is None else []


def _fill(holder: dict[str, Any], **values: Any) -> None:  # noqa: ANN401  # any JSON
    for field, value in values.items():
        holder.setdefault(field, value)


def _rolling(strategy: dict[str, Any], **values: int | str) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), **values)


def _default_deployment(document: dict[str, Any]) -> None:
    _rolling(document["spec"]["strategy"], maxUnavailable="25%", maxSurge="25%")


def _default_replication_controller(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if labels := ((spec.get("template") or {}).get("metadata") or {}).get("labels"):
        _fill(spec, selector=dict(labels))
        _fill(document["metadata"], labels=dict(labels))


def _default_daemon_set(document: dict[str, Any]) -> None:
    _rolling(document["spec"]["updateStrategy"], maxUnavailable=1, maxSurge=0)
    document["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "1")


def _count_templates(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    number = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
    number += new["spec"]["template"] != old["spec"]["template"]
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(number)


def _default_stateful_set(document: dict[str, Any]) -> None:
    _rolling(document["spec"]["updateStrategy"], partition=0)


def _default_job(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _fill(spec, parallelism=1, podReplacementPolicy=replaced)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _select_pods_of_job(document: dict[str, Any]) -> None:
    """Add the labels of the job's selector to the job's pod template."""
    spec, metadata, uid = document["spec"], document["metadata"], document["metadata"].get("uid", "")
    if spec.get("manualSelector"):
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    if not metadata.get("labels") or metadata["labels"] == labels:
        metadata["labels"] = labels  # labels that were copied from the template stay equal to it
    for key, value in (("job-name", metadata.get("name", "")), ("controller-uid", uid)):
        _fill(labels, **{key: value, f"batch.kubernetes.io/{key}": value})
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def _check_pods(template: Mapping[str, Any], path: str, policies: tuple[str, ...]) -> list[FieldError]:
    errors = check_labels(template["metadata"].get("labels"), f"{path}.labels")
    check_pod_spec(template["spec"], f"{path}.spec", errors, SERVER)
    policy = template["spec"].get("restartPolicy", "")
    if policy in policies:
        return errors
    if "Always" in policies:
        return [*errors, unsupported(f"{path}.spec.restartPolicy", policy, policies)]
    return [*errors, required(f"{path}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')]


def _check_replicas(spec: Mapping[str, Any]) -> list[FieldError]:
    replicas = spec.get("replicas") or 0
    return [invalid("spec.replicas", replicas, "must be greater than or equal to 0")] if replicas < 0 else []


def _check_set(word: str) -> Check:
    def check(document: dict[str, Any]) -> list[FieldError]:
        spec = document["spec"]
        selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels")
        errors = _check_replicas(spec) + ([] if selector is not None else [required("spec.selector")])
        check_label_selector(selector or {}, "spec.selector", errors)
        if selector is not None and not any(selector.values()):
            errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {word}"))
        elif selector is None or (not errors and not from_label_selector(selector).matches(labels or {})):
            shown = dict(sorted(labels.items())) if labels else None
            errors.append(invalid("spec.template.metadata.labels", shown, _MISMATCH))
        return [*errors, *_check_pods(spec["template"], "spec.template", ("Always",))]

    return check


def _check_controller(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    selector, template = spec.get("selector") or {}, spec.get("template")
    errors = _check_replicas(spec) + ([] if selector else [required("spec.selector")])
    if template is None:
        return [*errors, required("spec.template")]
    labels = template["metadata"].get("labels") or {}
    if not selector.items() <= labels.items():
        errors.append(invalid("spec.template.metadata.labels", dict(sorted(labels.items())), _MISMATCH))
    return [*errors, *_check_pods(template, "spec.template", ("Always",))]


def _check_job(document: dict[str, Any]) -> list[FieldError]:
    return _check_pods(document["spec"]["template"], "spec.template", ("OnFailure", "Never"))


def _check_cron_job(document: dict[str, Any]) -> list[FieldError]:
    template = document["spec"]["jobTemplate"]["spec"]["template"]
    return _check_pods(template, "spec.jobTemplate.spec.template", ("OnFailure", "Never"))


def _fixed(check: Check, *fields: str) -> UpdateCheck:
    """Return a check that a change does not modify these fields of the spec."""
    return lambda new, old: [
        *check(new),
        *(error for field in fields for error in immutable(new["spec"], old["spec"], field, f"spec.{field}")),
    ]


def _update_stateful_set(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = _check_set("statefulset")(new)
    mine, theirs = ({key: value for key, value in each["spec"].items() if key not in _STATEFUL_CHANGES} for each in (new, old))
    if mine != theirs:
        free = ", ".join(f"'{name}'" for name in _STATEFUL_CHANGES[:-1])
        text = f"updates to statefulset spec for fields other than {free} and '{_STATEFUL_CHANGES[-1]}' are forbidden"
        errors.append(forbidden("spec", text))
    return errors


def _workload(kinds: str, check: Check, update: UpdateCheck, **more: Any) -> Rules:  # noqa: ANN401  # of Rules
    return Rules(check=check, check_update=update, warnings=_told(kinds, _NO_PODS), generation=True, **more)


def _stored(kinds: str, why: str, *, generation: bool = True) -> Rules:
    return Rules(warnings=_told(kinds, why), generation=generation)


def _set(kinds: str, word: str, **more: Any) -> Rules:  # noqa: ANN401  # of Rules
    check = _check_set(word)
    return _workload(kinds, check, _fixed(check, "selector"), **more)


_NO_REPLICAS: Final[Default] = lambda document: document.update(status={"replicas": 0})  # noqa: E731  # a rule as a value

DEPLOYMENT: Final = _set("Deployments", "deployment", default=_default_deployment)
REPLICA_SET: Final = _set("ReplicaSets", "deployment", prepare=_NO_REPLICAS)
DAEMON_SET: Final = _set("DaemonSets", "daemonset", default=_default_daemon_set, prepare_update=_count_templates)
STATEFUL_SET: Final = _workload(
    "StatefulSets", _check_set("statefulset"), _update_stateful_set, default=_default_stateful_set, name=names.dns_label
)
JOB: Final = _workload(
    "Jobs of the batch group",
    _check_job,
    _fixed(_check_job, "completions", "selector", "template", "completionMode"),
    default=_default_job,
    prepare=_select_pods_of_job,
    fields={"status.successful": lambda document: str((document.get("status") or {}).get("succeeded", 0))},
)
CRON_JOB: Final = _workload("CronJobs of the batch group", _check_cron_job, _fixed(_check_cron_job))
REPLICATION_CONTROLLER: Final = _workload(
    "ReplicationControllers",
    _check_controller,
    _fixed(_check_controller),
    default=_default_replication_controller,
    prepare=_NO_REPLICAS,
    fields={"status.replicas": lambda document: str((document.get("status") or {}).get("replicas", 0))},
)
AUTOSCALER: Final = _stored("HorizontalPodAutoscalers", "nothing will be scaled by this one", generation=False)
INGRESS: Final = _stored("Ingresses", "no traffic will come in by this one")
BUDGET: Final = _stored("PodDisruptionBudgets", "evictions will not be held back by this one")
POLICY: Final = _stored("admission policies", "this one will neither refuse nor change anything; admission webhooks are called")
