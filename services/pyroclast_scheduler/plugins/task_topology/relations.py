"""The relations between the roles of a job, and the order of its tasks, as its annotations declare them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from pyroclast.api import keys


@dataclass(frozen=True, slots=True)
class Relations:
    """Pairs of roles; a pair of one role concerns the tasks of this role. `order`: a larger number is placed earlier."""

    together: frozenset[frozenset[str]] = frozenset()
    apart: frozenset[frozenset[str]] = frozenset()
    order: Mapping[str, int] = field(default_factory=dict)

    def concerns(self, role: str) -> bool:
        """Whether tasks of `role` have any relation."""
        return any(role in pair for pair in (*self.together, *self.apart))

    def priority(self, role: str) -> int:
        """Return the importance of the role's relations.

        Anti-affinity within the role has 4, affinity to others 3, affinity within the role 2, anti-affinity to others 1.
        """
        own = frozenset({role})
        found = [0]
        if own in self.apart:
            found.append(4)
        if any(role in pair and pair != own for pair in self.together):
            found.append(3)
        if own in self.together:
            found.append(2)
        if any(role in pair and pair != own for pair in self.apart):
            found.append(1)
        return max(found)

    def balance(self, role: str, others: Mapping[str, int], *, only_apart: bool = False) -> int:
        """Return the number of tasks in `others` that a task of `role` should join, less those that it should avoid.

        `others`: the number of tasks by role. `only_apart`: only tasks to be avoided count.
        """
        total = 0
        for other, count in others.items():
            pair = frozenset({role, other})
            total += count * ((pair in self.together and not only_apart) - (pair in self.apart))
        return total


def relations_of(annotations: Mapping[str, str], roles: Collection[str]) -> Relations | None:
    """Return the relations in the `annotations` of a PodGroup; None if there are none.

    Raises:
        ValueError: a role is named twice or does not exist in the job; the text names the role.
    """
    together = _groups(annotations.get(keys.TASK_TOPOLOGY_AFFINITY, ""))
    apart = _groups(annotations.get(keys.TASK_TOPOLOGY_ANTI_AFFINITY, ""))
    order = [name.strip() for name in annotations.get(keys.TASK_TOPOLOGY_TASK_ORDER, "").split(",") if name.strip()]
    if not (together or apart or order):
        return None
    for group in (*together, *apart, order):
        for name in group:
            if name not in roles:
                raise ValueError(f"task {name} do not exist")
            if group.count(name) > 1:
                raise ValueError(f"task {name} is duplicate")
    ranks = {name: len(order) - at for at, name in enumerate(order)}
    return Relations(_pairs(together), _pairs(apart), ranks)


def _groups(text: str) -> list[list[str]]:
    groups = [[name.strip() for name in group.split(",") if name.strip()] for group in text.split(";")]
    return [group for group in groups if group]


def _pairs(groups: list[list[str]]) -> frozenset[frozenset[str]]:
    """Return the pairs of roles. A group of one role stands for its own tasks, and a larger group for each pair of its roles."""
    return frozenset(
        frozenset(pair) for group in groups for pair in (combinations(group, 2) if len(group) > 1 else [tuple(group)])
    )
