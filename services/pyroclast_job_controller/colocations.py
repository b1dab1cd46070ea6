"""Writes to each pod the settings of the ColocationConfiguration that selects the pod."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.records import ColocationConfiguration, PodMeta
from pyroclast.api.types import COLOCATION_CONFIGURATIONS, PODS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import found
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.resources import selectors
from pyroclast_job_controller.caches import Shared


def selects(configuration: ColocationConfiguration, labels: Mapping[str, str]) -> bool:
    """Return whether the configuration has a valid selector that matches these labels."""
    selector = configuration.spec.selector
    return selector is not None and selectors.is_valid(selector) and selectors.matches(selector, labels)


def configuration_for(
    configurations: Iterable[ColocationConfiguration], labels: Mapping[str, str]
) -> ColocationConfiguration | None:
    """Return the newest configuration that selects the labels. Of several from the same second, return the first by name.

    Return None when no configuration selects them.
    """
    fitting = [each for each in configurations if selects(each, labels)]
    first_by_name = sorted(fitting, key=lambda each: each.metadata.name)
    return max(first_by_name, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def written(configuration: ColocationConfiguration) -> dict[str, Any]:
    """Return the settings in the form of the annotation, without numbers that are zero."""
    qos = configuration.spec.memory_qos
    if qos is None:
        return {}
    ratios = {"highRatio": qos.high_ratio, "lowRatio": qos.low_ratio, "minRatio": qos.min_ratio}
    return {"memoryQos": {name: ratio for name, ratio in ratios.items() if ratio}}


def patch(pod: PodMeta, configuration: ColocationConfiguration | None) -> dict[str, Any]:
    """Return the merge patch that sets the pod's annotations for `configuration`. Empty when they are correct already.

    A pod that no configuration selects any more gets empty settings, so that node agents revert their changes.
    """
    there = pod.metadata.annotations
    name, text = there.get(keys.COLOCATION_CONFIG_NAME), there.get(keys.COLOCATION_CONFIG)
    if configuration is None:
        if name is None and text in (None, "{}"):
            return {}
        marks: dict[str, str | None] = {keys.COLOCATION_CONFIG_NAME: None, keys.COLOCATION_CONFIG: "{}"}
    else:
        wanted = written(configuration)
        if name == configuration.metadata.name and _read(text) == wanted:
            return {}
        marks = {
            keys.COLOCATION_CONFIG_NAME: configuration.metadata.name,
            keys.COLOCATION_CONFIG: json.dumps(wanted, separators=(",", ":")),
        }
    return {"metadata": {"uid": pod.metadata.uid, "annotations": marks}}


def _read(text: str | None) -> object:
    try:
        return json.loads(text) if text is not None else None
    except ValueError:
        return None


log = structlog.get_logger()

_DEBOUNCE: Final = 1.0
"""Seconds between a pod's change and its reconcile, because the creator of the pod may still add labels."""
_NAMESPACE: Final = "namespace"


class ColocationController:
    """Reconciles the annotations of pods. `start` runs the informer of pods once a configuration exists."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], start: Callable[[Informer[Any]], object]) -> None:
        self._client = shared.client
        self._queue, self._start, self._is_watching = queue, start, False
        self._pods: Informer[PodMeta] = Informer(shared.client, PODS, PodMeta, indexers={_NAMESPACE: _namespace_of})
        self._configurations: Informer[ColocationConfiguration] = Informer(
            shared.client, COLOCATION_CONFIGURATIONS, ColocationConfiguration, indexers={_NAMESPACE: _namespace_of}
        )
        self.about = subjects_of(self._pods.get, PODS)
        shared.caches.watch(self._configurations)
        self._configurations.on_change(self._configuration)
        self._pods.on_change(self._pod)

    def enqueue_all(self) -> None:
        """Enqueue every pod of this replica's shards, after the replica became their leader."""
        for pod in self._pods.values():
            self._enqueue(pod)

    async def reconcile(self, key: Key) -> None:
        """Write the annotations of the pod `key`, if they differ from its configuration."""
        pod = self._pods.get(key)
        if pod is None or pod.metadata.is_terminating:
            return
        there = self._configurations.by_index(_NAMESPACE, key.namespace)
        configuration = configuration_for(there, pod.metadata.labels)
        change = patch(pod, configuration)
        if not change:
            return
        if await found(self._client.patch(PODS, key, change, PatchKind.MERGE)) is None:
            return
        log.info("pod.colocated", pod=str(key), configuration=configuration.metadata.name if configuration else None)

    def _configuration(self, old: ColocationConfiguration | None, new: ColocationConfiguration | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        if not self._is_watching:
            self._is_watching = True
            self._start(self._pods)
        each = new or old
        for pod in self._pods.by_index(_NAMESPACE, each.metadata.namespace if each else ""):
            labels = pod.metadata.labels
            if any(one is not None and selects(one, labels) for one in (old, new)):
                self._enqueue(pod)

    def _pod(self, old: PodMeta | None, new: PodMeta | None) -> None:
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self._enqueue(new, after=_DEBOUNCE)

    def _enqueue(self, pod: PodMeta, *, after: float = 0.0) -> None:
        concerned = keys.COLOCATION_CONFIG in pod.metadata.annotations
        if concerned or self._configurations.by_index(_NAMESPACE, pod.metadata.namespace):
            self._queue.add_after(pod.key, after)


def _namespace_of(record: PodMeta | ColocationConfiguration) -> Iterable[str]:
    return (record.metadata.namespace,)
