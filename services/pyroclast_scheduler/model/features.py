"""Features of nodes as arrays with one value per node: label values as codes, sets of taints as numbers.

A selector is evaluated once per distinct value instead of once per node. The arrays are kept from session to session, and
`NodeFeatures.update` only reads the nodes that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import eq
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.hypernode_members import HyperNodeMembers
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.pod_columns import PodColumns
from pyroclast_scheduler.model.shapes import Toleration
from pyroclast_scheduler.model.term_counts import TermBook

V = TypeVar("V", bound=Hashable)
_UNREADY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_NAME = "metadata.name"
_FEW = 64
_MOST_LABELS = 256
"""The number of labels that are kept as columns, the most recently used ones. A column costs 4 bytes per node."""


@dataclass(slots=True)
class _Column(Generic[V]):
    """One feature: the code of each node's value, and the values by code. `absent`: the value of rows without a node."""

    read: Callable[[records.Node], V]
    absent: V
    codes: npt.NDArray[np.int32]
    values: list[V] = field(default_factory=list)
    _index: dict[V, int] = field(default_factory=dict)

    def write(self, row: int, node: records.Node | None) -> None:
        value = self.absent if node is None else self.read(node)
        code = self._index.get(value)
        if code is None:
            code = self._index[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    def compact(self) -> None:
        """Remove values that no node has, once they are the majority: host names never stop changing."""
        if len(self.values) <= 2 * max(_FEW, len(self.codes)):
            return
        used, codes = np.unique(self.codes, return_inverse=True)
        self.codes = codes.astype(np.int32)
        self.values = [self.values[code] for code in used.tolist()]
        self._index = {value: code for code, value in enumerate(self.values)}

    def where(self, test: Callable[[V], bool]) -> Bools:
        """Return a mask of the nodes whose value passes `test`."""
        if not self.values:
            return np.zeros(len(self.codes), dtype=np.bool_)
        return np.fromiter(map(test, self.values), dtype=np.bool_, count=len(self.values))[self.codes]

    def map(self, measure: Callable[[V], float]) -> Floats:
        """Return for each node the result of `measure` for the value of the node."""
        if not self.values:
            return np.zeros(len(self.codes))
        return np.fromiter(map(measure, self.values), dtype=np.float64, count=len(self.values))[self.codes]


@dataclass(frozen=True, slots=True)
class Domains:
    """Nodes divided by the value of a label. `codes`: the number of each node's value. `has`: the nodes with the label."""

    codes: npt.NDArray[np.int32]
    has: Bools
    count: int

    def sums(self, counts: Ints | Floats, among: Bools | None = None) -> Floats:
        """Return the sum of `counts` over the nodes of each domain, by code. Only nodes in the mask `among` are counted."""
        weights = np.where(self.has if among is None else self.has & among, counts, 0)
        return np.bincount(self.codes, weights=weights, minlength=self.count).astype(np.float64)


class NodeFeatures:
    """The arrays of all features. An array is made when it is first used, and `update` must be called before each session.

    `pods`: the pods that may be evicted, as columns; `PodColumns.update` must be called before they are used.
    """

    def __init__(self) -> None:
        self.hyper_nodes = HyperNodeMembers()
        self.terms = TermBook()
        self.pods = PodColumns()
        self._nodes: Sequence[records.Node | None] = ()
        self._stamps: Ints = np.zeros(0, dtype=np.int64)
        self._domains: dict[str, Domains] = {}
        self._labels: dict[str, _Column[str | None]] = {}
        self._names: _Column[str] | None = None
        self._images: list[Mapping[str, int]] | None = None
        self._image_sizes: dict[str, Ints] = {}
        self._taints: _Column[tuple[records.Taint, ...]] = _Column(lambda node: node.spec.taints, (), np.zeros(0, dtype=np.int32))
        self._closed: _Column[bool] = _Column(lambda node: node.spec.unschedulable, False, np.zeros(0, dtype=np.int32))

    def update(self, nodes: Sequence[records.Node | None], stamps: Ints) -> None:
        """Read the nodes whose stamp differs from that of the last update."""
        grown = len(nodes) - len(self._stamps)
        known = np.pad(self._stamps, (0, max(0, grown)), constant_values=-1)[: len(nodes)]
        changed = np.flatnonzero(known != stamps)
        self._nodes, self._stamps = nodes, stamps
        for key in list(self._labels)[:-_MOST_LABELS]:
            del self._labels[key]
            self._domains.pop(key, None)
        if len(changed):
            self._domains.clear()
            self._image_sizes.clear()
        if self._images is not None:
            self._images += [{}] * max(0, grown)
            for row in changed.tolist():
                self._images[row] = _images_of(nodes[row])
        for column in self._columns():
            if grown > 0:
                column.codes = np.pad(column.codes, (0, grown))
            for row in changed.tolist():
                column.write(row, nodes[row])
            column.compact()

    def label(self, key: str) -> _Column[str | None]:
        """Return the values of label `key` for all nodes. The value is None for a node without the label."""
        column = self._labels.pop(key, None) or self._made(lambda node: node.metadata.labels.get(key), None)
        self._labels[key] = column  # the last used are at the end
        return column

    def domains(self, key: str) -> Domains:
        """Return the topology domains of label `key`."""
        found = self._domains.get(key)
        if found is None:
            column = self.label(key)
            has = column.where(lambda value: value is not None)
            found = self._domains[key] = Domains(column.codes, has, len(column.values))
        return found

    def image(self, name: str) -> Ints:
        """Return the size of image `name` on each node in bytes, 0 where it is missing. The array must not be changed."""
        if self._images is None:
            self._images = [_images_of(node) for node in self._nodes]
        sizes = self._image_sizes.get(name)
        if sizes is None:
            found = (images.get(name, 0) for images in self._images)
            sizes = self._image_sizes[name] = np.fromiter(found, dtype=np.int64, count=len(self._images))
        return sizes

    def closed(self) -> Bools:
        """Return a mask of the nodes marked unschedulable."""
        return self._closed.where(bool)

    def unready(self) -> Bools:
        """Return a mask of the nodes with a not-ready or unreachable taint, which disappears once the node has recovered."""
        return self._taints.where(lambda taints: any(taint.key in _UNREADY for taint in taints))

    def untolerated(self, tolerations: Sequence[Toleration], effects: frozenset[str]) -> Bools:
        """Return a mask of the nodes with a taint of one of `effects` that no toleration tolerates."""
        return self._taints.where(lambda taints: _untolerated(taints, tolerations, effects) > 0)

    def count_untolerated(self, tolerations: Sequence[Toleration], effects: frozenset[str]) -> Floats:
        """Return for each node the number of taints of `effects` that no toleration tolerates."""
        return self._taints.map(lambda taints: _untolerated(taints, tolerations, effects))

    def selected(self, selector: Mapping[str, str]) -> Bools:
        """Return a mask of the nodes that have all labels of `selector`."""
        chosen = np.ones(len(self._nodes), dtype=np.bool_)
        for key, wanted in selector.items():
            chosen &= self.label(key).where(partial(eq, wanted))
        return chosen

    def matching(self, terms: Sequence[Mapping[str, Any]]) -> Bools:
        """Return a mask of the nodes that match at least one of the node selector terms. An empty term matches no node."""
        chosen = np.zeros(len(self._nodes), dtype=np.bool_)
        for term in terms:
            expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
            if not expressions and not fields:
                continue
            hit = np.ones(len(self._nodes), dtype=np.bool_)
            for expression in expressions:
                hit &= self.label(expression.get("key", "")).where(_test(expression))
            for expression in fields:
                hit &= self._name().where(_test(expression)) if expression.get("key") == _NAME else False
            chosen |= hit
        return chosen

    def _name(self) -> _Column[str]:
        if self._names is None:
            self._names = self._made(lambda node: node.metadata.name, "")
        return self._names

    def _made(self, read: Callable[[records.Node], V], absent: V) -> _Column[V]:
        column = _Column(read, absent, np.zeros(len(self._nodes), dtype=np.int32))
        for row, node in enumerate(self._nodes):
            column.write(row, node)
        return column

    def _columns(self) -> list[_Column[Any]]:
        return [self._taints, self._closed, *self._labels.values(), *([self._names] if self._names else [])]


def _images_of(node: records.Node | None) -> Mapping[str, int]:
    """Return the sizes of the images on a node, by each name of an image."""
    return {} if node is None else {name: image.size_bytes for image in node.status.images for name in image.names}


def tolerates(toleration: Toleration, taint: records.Taint) -> bool:
    """Whether `toleration` tolerates `taint`."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _untolerated(taints: Sequence[records.Taint], tolerations: Sequence[Toleration], effects: frozenset[str]) -> int:
    return sum(taint.effect in effects and not any(tolerates(each, taint) for each in tolerations) for taint in taints)


def _test(expression: Mapping[str, Any]) -> Callable[[str | None], bool]:
    values = frozenset(str(value) for value in expression.get("values") or ())
    match expression.get("operator"):
        case "In":
            return lambda value: value in values
        case "NotIn":
            return lambda value: value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case "Gt" | "Lt" as operator:
            return lambda value: _compare(operator, value, values)
        case _:
            return lambda _value: False


def _compare(operator: str, value: str | None, bounds: frozenset[str]) -> bool:
    try:
        number, bound = int(value or ""), int(next(iter(bounds), ""))
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound
