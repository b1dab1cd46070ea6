"""The entries of a flow: as the flow function builds them, and as the JobFlow and its JobTemplates describe them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Any

from pyroclast_client.documents import Document
from pyroclast_client.flow_values import Builder, Case, Cases, Condition, Item, Loop, Node, Order, refuse
from pyroclast_client.options import Definition
from pyroclast_client.payload import Arguments


@dataclass(frozen=True)
class Choice:
    """A `switch`. The first case that matches is chosen, and `default` when no case matches."""

    name: str
    on: Node
    cases: list[Case] = field(default_factory=list)
    default: list[Node] = field(default_factory=list)


def choice_manifest(choice: Choice, names: Mapping[str, str]) -> Document:
    """Return the entry of the JobFlow for a choice. The entry has no template.

    `names` maps names of nodes to names of entries.
    """
    cases = [{**dict(_outcome(case)), "entries": [names[node.name] for node in case.nodes]} for case in choice.cases]
    switch: Document = {"on": names[choice.on.name], "cases": cases}
    if choice.default:
        switch["default"] = [names[node.name] for node in choice.default]
    return {"name": names[choice.name], "switch": switch}


def _outcome(case: Case) -> Iterator[tuple[str, str | int]]:
    if case.phase is not None:
        yield "phase", case.phase
    if case.exit_code is not None:
        yield "exitCode", case.exit_code


_TARGET = re.compile(r'targets\["([^"]+)"\]')


@dataclass
class Entry:
    """A call in a flow.

    Attributes:
        node: the placeholder of the call's value.
        task: the function and its options.
        arguments: one set of arguments, or one set for each round of `loop`.
        order: the nodes after which the call runs, besides those in `needs`.
        loop: the rounds of the call. None for a single call.
        needs: the nodes whose values the arguments contain.
        condition: the condition of the enclosing `when` blocks. None outside of them.
        others: the entries of the `otherwise` block. Only the first entry of a `when` block has them.
    """

    node: Node
    task: Definition[..., Any]
    arguments: Sequence[Arguments]
    order: Order
    loop: Loop | None
    needs: tuple[Node, ...]
    condition: Condition | None = None
    others: list[Node] = field(default_factory=list)

    @property
    def targets(self) -> list[Node]:
        """Return the nodes of a flow on which the entry depends, by its arguments, its order and its condition."""
        asked = self.condition.nodes if self.condition is not None else ()
        return list(dict.fromkeys((*self.needs, *self.order.nodes, *asked)))


@dataclass
class _Block:
    """A `when` block and the first entry in it."""

    condition: Condition
    first: Entry | None = None


@dataclass
class Gathered(Builder):
    """The entries of a flow in the order of the calls, and the choices between entries by `switch`."""

    entries: dict[str, Entry] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    _blocks: list[_Block] = field(default_factory=list)
    _last: _Block | None = None
    _chosen: list[Node] | None = None
    _choice: Choice | None = None

    def add(self, task: Definition[..., Any], arguments: Sequence[Arguments], order: Order, loop: Loop | None) -> Node:
        """Add a call. Return its node."""
        if self._choice is not None and self._chosen is None:
            refuse("a call in a switch, outside its cases,", "with case(exit_code=3):")
        name = self._fresh(re.sub(r"[^a-z0-9]+", "-", task.name.lower()).strip("-") or "task")
        node = Node(name, None if loop is None else len(arguments), pods=task.options.gang.size)
        condition = reduce(and_, (block.condition for block in self._blocks)) if self._blocks else None
        entry = Entry(node, task, arguments, order, loop, tuple(nodes_in(arguments)), condition)
        for each in entry.targets:
            self._check(each)
        self.entries[name] = entry
        for block in self._blocks:
            block.first = block.first or entry
        if self._chosen is not None:
            self._chosen.append(node)
        return node

    @contextmanager
    def when(self, condition: Condition) -> Iterator[None]:
        """See `pyroclast_client.flow_values.when`."""
        if self._chosen is not None or self._choice is not None:
            refuse("`when` inside `otherwise` or a switch", "with pc.when(~condition & other):")
        self._blocks.append(_Block(condition))
        try:
            yield
        finally:
            self._last = self._blocks.pop()

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """See `pyroclast_client.flow_values.otherwise`."""
        if self._choice is not None:
            with self._choosing(self._choice.default):
                yield
            return
        if self._last is None or self._last.first is None or self._blocks:
            refuse("`otherwise` without a `when` block before it that calls a task", "with pc.when(node.succeeded):")
        others, self._last = self._last.first.others, None
        with self._choosing(others):
            yield

    @contextmanager
    def switch(self, node: Node) -> Iterator[Cases]:
        """See `pyroclast_client.flow_values.Node.switch`."""
        if self._blocks or self._chosen is not None or self._choice is not None:
            refuse("a switch inside another choice", "node.switch() at the top of the flow")
        self._check(node)
        self._choice = choice = Choice(self._fresh(f"switch-{node.name}"), node)
        self.choices[choice.name] = choice
        try:
            yield Cases(self._case)
        finally:
            self._choice, self._last = None, None
        if not any((*(case.nodes for case in choice.cases), choice.default)):
            refuse("a switch without a call in any of its cases", "with case(exit_code=3):")

    @contextmanager
    def _case(self, case: Case) -> Iterator[None]:
        if self._choice is None:
            refuse("a case outside its switch", "with node.switch() as case:")
        self._choice.cases.append(case)
        with self._choosing(case.nodes):
            yield

    @contextmanager
    def _choosing(self, nodes: list[Node]) -> Iterator[None]:
        """Add the nodes of the calls in the block to `nodes`."""
        if self._chosen is not None:
            refuse("a choice inside a case or `otherwise`", "with pc.when(condition & other):")
        self._chosen = nodes
        try:
            yield
        finally:
            self._chosen = None

    def _fresh(self, stem: str) -> str:
        """Return `stem`, with a number if another entry has that name."""
        taken = (*self.entries, *self.choices)
        number = sum(1 for name in taken if name == stem or re.fullmatch(rf"{re.escape(stem)}-\d+", name)) + 1
        return stem if number == 1 else f"{stem}-{number}"

    def _check(self, node: Node) -> None:
        if node.name not in self.entries or self.entries[node.name].node is not node:
            refuse(f"{node.name}, a node of another flow,", "a call in this flow")


def reference(value: object) -> object | None:
    """Return the reference that replaces the value of another entry in pickled arguments. None for any other object."""
    match value:
        case Node(rounds=None):
            return ("value", value.name, 0)
        case Node():
            return ("rounds", value.name, value.rounds)
        case Item():
            return ("item", value.node.name, value.number)
    return None


def entry_manifest(entry: Entry, names: Mapping[str, str]) -> Document:
    """Return the entry of the JobFlow. `names` maps names of nodes to names of entries."""
    found: Document = {"name": names[entry.node.name]}
    if targets := entry.targets:
        depends: Document = {"targets": [names[node.name] for node in targets]}
        if entry.order.any:
            depends["strategy"] = "any"
        if entry.order.port is not None:
            depends["probe"] = {"tcpSocketList": [{"taskName": "main", "port": entry.order.port}]}
        found["dependsOn"] = depends
    if (condition := entry.condition) is not None:
        if condition.target is not None:
            found["if"] = {"target": names[condition.target.name], "phase": list(condition.phases)}
        else:
            found["if"] = {"expression": _TARGET.sub(lambda each: f'targets["{names[each[1]]}"]', condition.text)}
    if entry.others:
        found["else"] = [names[node.name] for node in entry.others]
    if entry.loop is not None:
        loop: Document = {"count": len(entry.arguments), "parallel": entry.loop.parallel}
        found["for"] = {**loop, **({"until": entry.loop.until} if entry.loop.until else {})}
    if entry.task.options.patch:
        found["patch"] = {"spec": dict(entry.task.options.patch)}
    if entry.task.options.retries:
        retry: Document = {"limit": entry.task.options.retries}
        found["retry"] = {**retry, **({"backoff": entry.task.options.backoff} if entry.task.options.backoff else {})}
    return found


def nodes_in(value: object) -> Iterator[Node]:
    """Yield the nodes in arguments, also within lists, tuples, dicts and sets."""
    match value:
        case Node():
            yield value
        case Item():
            yield value.node
        case Arguments():
            yield from nodes_in(value.positional)
            yield from nodes_in(value.keywords or {})
        case Mapping():
            for each in value.values():
                yield from nodes_in(each)
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from nodes_in(each)
