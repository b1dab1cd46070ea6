"""Disruption budgets: how many pods of each may go right now, kept in their status for the eviction of pods to look at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from . import clock
from .documents.selectors import from_label_selector
from .internal import KeyedWorker
from .registry import Registry
from .store import DELETED, Change, Collection, Store, Stored

__all__ = ["DisruptionController"]

_GATHER_SECONDS: Final = 0.05  # between a change of a pod and the count, so that many changes cost one
_DISRUPTED_SECONDS: Final = 120.0  # how long an evicted pod that is still there counts as gone


class _Uncountable(Exception):
    """Nobody can tell how many pods there should be."""


class DisruptionController:
    """Counts pods for budgets."""

    def __init__(self, store: Store, registry: Registry, now: Callable[[], float]) -> None:
        self._store = store
        self._registry = registry
        self._now = now
        self._pods = store.collection("pods")
        self._budgets = store.collection("poddisruptionbudgets.policy")
        self.worker: KeyedWorker[str] = KeyedWorker("disruption", self._count)
        store.listeners.append(self._on_change)

    def start(self) -> None:
        """Count for every budget."""
        for stored in self._budgets.select():
            self.worker.add(stored.key)

    def _on_change(self, collection: Collection, change: Change) -> None:
        if collection is self._budgets and change.kind is not DELETED:
            self.worker.add(change.current.key)
        elif collection is self._pods and self._budgets.items:
            for key in self._budgets.keys(change.current.namespace):
                self.worker.add_after(key, _GATHER_SECONDS)

    async def _count(self, key: str) -> None:
        stored = self._budgets.items.get(key)
        if stored is None:
            return
        budget = stored.load()
        selector = budget["spec"].get("selector")
        matches = from_label_selector(selector).matches if selector is not None else None
        pods = [pod for pod in self._pods.select(stored.namespace) if matches is not None and matches(pod.labels)]
        before: dict[str, Any] = budget.get("status") or {}
        disrupted = {
            name: since
            for name, since in (before.get("disruptedPods") or {}).items()
            if any(pod.name == name and not pod.deleting for pod in pods)
            and self._now() - clock.seconds_of(since) < _DISRUPTED_SECONDS
        }
        healthy = sum(_is_healthy(pod) and pod.name not in disrupted for pod in pods)
        try:
            expected, desired = self._wanted(budget["spec"], pods)
            allowed, reason = max(0, healthy - desired) if expected else 0, ""
        except _Uncountable as error:
            expected, desired, allowed, reason = 0, 0, 0, str(error)
        state: dict[str, Any] = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": self._conditions(before.get("conditions") or [], budget, allowed, reason),
        }
        if disrupted:
            state["disruptedPods"] = disrupted
        if state != before:
            budget["status"] = state
            self._store.put(self._budgets, key, budget)

    def _wanted(self, spec: dict[str, Any], pods: list[Stored]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy.

        Raises:
            _Uncountable: a share is asked for, of pods that nobody says the number of.
        """
        least, most_gone = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return len(pods), least
        expected = self._expected(pods)
        if most_gone is not None:
            gone = most_gone if isinstance(most_gone, int) else math.ceil(expected * _share(most_gone))
            return expected, max(0, expected - gone)
        return expected, math.ceil(expected * _share(least or "0%"))

    def _expected(self, pods: list[Stored]) -> int:
        """Replicas that the controllers of `pods` want."""
        wanted: dict[str, int] = {}
        for pod in pods:
            references = pod.load()["metadata"].get("ownerReferences") or ()
            owner = next((each for each in references if each.get("controller")), None)
            if owner is None:
                raise _Uncountable(f"found no controller ref for pod {pod.name!r}".replace("'", '"'))
            if owner["uid"] not in wanted:
                group, _, version = owner["apiVersion"].rpartition("/")
                resource = self._registry.of_kind(group, version, owner["kind"])
                stored = resource.collection.items.get(f"{pod.namespace}/{owner['name']}") if resource else None
                replicas = (stored.load().get("spec") or {}).get("replicas") if stored is not None else None
                if not isinstance(replicas, int):
                    raise _Uncountable(f"{owner['kind']} of {owner['apiVersion']} does not implement the scale subresource")
                wanted[owner["uid"]] = replicas
        return sum(wanted.values())

    def _conditions(
        self, before: list[dict[str, Any]], budget: dict[str, Any], allowed: int, failure: str
    ) -> list[dict[str, Any]]:
        value = "True" if allowed else "False"
        reason = "SyncFailed" if failure else "SufficientPods" if allowed else "InsufficientPods"
        old = next((each for each in before if each["type"] == "DisruptionAllowed"), None)
        since = clock.timestamp(self._now()) if old is None or old["status"] != value else old["lastTransitionTime"]
        return [
            {
                "type": "DisruptionAllowed",
                "status": value,
                "observedGeneration": budget["metadata"].get("generation", 1),
                "lastTransitionTime": since,
                "reason": reason,
                "message": failure,
            }
        ]


def _is_healthy(pod: Stored) -> bool:
    if pod.deleting:
        return False
    conditions = (pod.load().get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _share(text: object) -> float:
    return float(str(text).rstrip("%")) / 100
