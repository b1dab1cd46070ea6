"""The machine that draws writes, sends each to both servers and stops where they differ."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.e2e.conformance import stateful_writes as writes
from tests.e2e.conformance.cases import Step
from tests.e2e.conformance.compare import Difference
from tests.e2e.conformance.driver import Server
from tests.e2e.conformance.stateful_kinds import KINDS, Kind
from tests.e2e.conformance.stateful_twins import Twins, twins

__all__ = ["Counts", "Differs", "machine_of"]

T = TypeVar("T")
Do = Callable[[Coroutine[Any, Any, Any]], Any]


class Differs(AssertionError):
    """The servers do not agree: what was asked, and where the answers part."""

    def __init__(self, step: Step | None, found: Sequence[Difference]) -> None:
        asked = f"{step.kind} {step.target} {step.body!r} {dict(step.options)}" if step else "the end"
        super().__init__("\n  ".join([asked, *map(str, found)]))
        self.step, self.found = step, found


class Counts:
    """How much was compared."""

    sequences = 0
    steps = 0


def _of(strategy: Callable[[Sequence[Kind]], st.SearchStrategy[Step]]) -> st.SearchStrategy[Step]:
    """A step on one of the kinds of the sequence."""
    return st.runner().flatmap(lambda machine: strategy(machine.kinds))


class Machine(RuleBasedStateMachine):
    """One sequence of writes. `machine_of` gives it the servers."""

    servers: ClassVar[tuple[Server, Server]]
    do: ClassVar[Do]
    counts: ClassVar[Counts]

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Sequence[Kind] = ()
        self.opened: Any = None
        self.twins: Twins | None = None
        self.differs = False

    @initialize(kinds=st.lists(st.sampled_from(list(KINDS.values())), min_size=1, max_size=2, unique_by=lambda kind: kind.name))
    def begin(self, kinds: Sequence[Kind]) -> None:
        self.kinds = kinds
        self.opened = twins(*self.servers, kinds)
        self.twins = self.do(self.opened.__aenter__())
        self.counts.sequences += 1

    @rule(step=_of(writes.creates))
    def create(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.replaces))
    def replace(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.edits))
    def edit(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.patches))
    def patch(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.json_patches))
    def json_patch(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.applies))
    def apply(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.deletes))
    def delete(self, step: Step) -> None:
        self._ask(step)

    @rule(step=_of(writes.reads))
    def read(self, step: Step) -> None:
        self._ask(step)

    @precondition(lambda self: any(kind.is_scaled for kind in self.kinds))
    @rule(step=_of(lambda kinds: writes.scales(next(kind for kind in kinds if kind.is_scaled))))
    def scale(self, step: Step) -> None:
        self._ask(step)

    @precondition(lambda self: any(kind.is_bound for kind in self.kinds))
    @rule(step=_of(lambda kinds: writes.bindings(next(kind for kind in kinds if kind.is_bound))))
    def bind(self, step: Step) -> None:
        self._ask(step)

    def teardown(self) -> None:
        if self.twins is None:
            return
        try:
            found = [] if self.differs else self.do(self.twins.finish())
        finally:
            self.do(self.opened.__aexit__(None, None, None))
        if found:
            raise Differs(None, found)

    def _ask(self, step: Step) -> None:
        assert self.twins is not None
        self.counts.steps += 1
        found = self.do(self.twins.ask(step))
        if found:
            self.differs = True
            raise Differs(step, found)


def machine_of(real: Server, ours: Server, do: Do) -> type[Machine]:
    """The machine for two servers; `do` carries out what is to be awaited, where the servers' clients live."""
    return type("TwoServers", (Machine,), {"servers": (real, ours), "do": staticmethod(do), "counts": Counts()})
