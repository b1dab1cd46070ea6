"""Kinds whose controllers do not run here. They are stored by their schema with the main defaults, and a create warns."""

from __future__ import annotations

from typing import Any, Final

from pyroclast_standalone.apiserver.kinds.rules import Default, Rules

_NO_PODS: Final = "no pods will be made from this one"


def _rolling(field: str, **values: int | str) -> Default:
    """Return the defaults of a strategy of updates."""

    def default(document: dict[str, Any]) -> None:
        strategy = document["spec"][field]
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = values | strategy.get("rollingUpdate", {})

    return default


def _stored(kinds: str, why: str, *, default: Default = lambda _: None, generation: bool = True) -> Rules:
    text = f"the embedded control plane stores {kinds} and runs nothing for them: {why}"
    return Rules(default=default, warnings=lambda _document, old: [text] if old is None else [], generation=generation)


DEPLOYMENT: Final = _stored("Deployments", _NO_PODS, default=_rolling("strategy", maxUnavailable="25%", maxSurge="25%"))
REPLICA_SET: Final = _stored("ReplicaSets", _NO_PODS)
DAEMON_SET: Final = _stored("DaemonSets", _NO_PODS, default=_rolling("updateStrategy", maxUnavailable=1, maxSurge=0))
STATEFUL_SET: Final = _stored("StatefulSets", _NO_PODS, default=_rolling("updateStrategy", partition=0))
JOB: Final = _stored("Jobs of the batch group", _NO_PODS)
CRON_JOB: Final = _stored("CronJobs of the batch group", _NO_PODS)
REPLICATION_CONTROLLER: Final = _stored("ReplicationControllers", _NO_PODS)
LIMIT_RANGE: Final = _stored("LimitRanges", "this one will neither refuse nor change anything", generation=False)
AUTOSCALER: Final = _stored("HorizontalPodAutoscalers", "nothing will be scaled by this one", generation=False)
INGRESS: Final = _stored("Ingresses", "no traffic will come in by this one")
BUDGET: Final = _stored("PodDisruptionBudgets", "evictions will not be held back by this one")
POLICY: Final = _stored("admission policies", "this one will neither refuse nor change anything; admission webhooks are called")
