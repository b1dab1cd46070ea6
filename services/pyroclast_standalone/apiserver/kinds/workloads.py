"""Kinds whose controllers do not run here: they are stored, some with their defaults, and creating one warns of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .pod_defaults import default_template
from .rules import Default, Rules

__all__ = [
    "AUTOSCALER",
    "BUDGET",
    "CRON_JOB",
    "DAEMON_SET",
    "DEPLOYMENT",
    "INGRESS",
    "JOB",
    "POLICY",
    "REPLICATION_CONTROLLER",
    "REPLICA_SET",
    "STATEFUL_SET",
]

_BACKOFF: Final = 6
_NO_PODS: Final = "no pods will be made from this one"


def _told(kinds: str, why: str) -> Callable[[Mapping[str, Any], Mapping[str, Any] | None], list[str]]:
    text = f"the embedded control plane stores {kinds} and runs nothing for them: {why}"
    return lambda _document, old: [text] if old is None else []


def _rolling(strategy: dict[str, Any], **values: int | str) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for field, value in values.items():
            rolling.setdefault(field, value)


def _default_deployment(document: dict[str, Any]) -> None:
    spec = document["spec"]
    default_template(spec["template"])
    spec.setdefault("replicas", 1)
    _rolling(spec["strategy"], maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _default_job(document: dict[str, Any]) -> None:
    spec = document["spec"]
    default_template(spec["template"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for field, value in (
        ("parallelism", 1),
        ("backoffLimit", _BACKOFF),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
        ("manualSelector", False),
    ):
        spec.setdefault(field, value)


def _workload(kinds: str, default: Default) -> Rules:
    return Rules(default=default, warnings=_told(kinds, _NO_PODS), generation=True)


def _stored(kinds: str, why: str) -> Rules:
    return Rules(warnings=_told(kinds, why), generation=True)


DEPLOYMENT: Final = _workload("Deployments", _default_deployment)
REPLICA_SET: Final = _stored("ReplicaSets", _NO_PODS)
STATEFUL_SET: Final = _stored("StatefulSets", _NO_PODS)
DAEMON_SET: Final = _stored("DaemonSets", _NO_PODS)
JOB: Final = _workload("Jobs of the batch group", _default_job)
CRON_JOB: Final = _stored("CronJobs of the batch group", _NO_PODS)
REPLICATION_CONTROLLER: Final = _stored("ReplicationControllers", _NO_PODS)
AUTOSCALER: Final = _stored("HorizontalPodAutoscalers", "nothing will be scaled by this one")
INGRESS: Final = _stored("Ingresses", "no traffic will come in by this one")
BUDGET: Final = _stored("PodDisruptionBudgets", "evictions will not be held back by this one")
POLICY: Final = _stored("admission policies", "this one will neither refuse nor change anything; admission webhooks are called")
