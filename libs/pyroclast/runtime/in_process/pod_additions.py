"""What the API server adds to the amounts of new pods, from informers of LimitRanges and RuntimeClasses."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from pyroclast.api.records import LimitRange, RuntimeClass
from pyroclast.api.types import LIMIT_RANGES, RUNTIME_CLASSES
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.resources.pods import Additions


class PodAdditions:
    """The additions of each namespace. While no LimitRange and no RuntimeClass changes, a namespace has the same object."""

    def __init__(self, client: Client) -> None:
        self._ranges: Informer[LimitRange] = Informer(
            client, LIMIT_RANGES, LimitRange, indexers={"namespace": lambda each: (each.metadata.namespace,)}
        )
        self._classes: Informer[RuntimeClass] = Informer(client, RUNTIME_CLASSES, RuntimeClass)
        self.informers: tuple[Informer[Any], ...] = self._ranges, self._classes
        self._known: dict[str, Additions] = {}
        self._ranges.on_change(lambda *_: self._known.clear())
        self._classes.on_change(lambda *_: self._known.clear())

    def of(self, namespace: str) -> Additions:
        """Return the additions of a namespace."""
        found = self._known.get(namespace)
        if found is None:
            ranges = sorted(self._ranges.by_index("namespace", namespace), key=attrgetter("metadata.name"))
            overhead = {each.metadata.name: each.overhead.pod_fixed for each in self._classes.values() if each.overhead}
            found = self._known[namespace] = Additions.of((each.spec.limits for each in ranges), overhead)
        return found

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Call `handler` with the namespace whose additions may have changed; empty for all namespaces."""
        self._ranges.on_change(lambda old, new: handler(each.metadata.namespace if (each := new or old) else ""))
        self._classes.on_change(lambda *_: handler(""))
