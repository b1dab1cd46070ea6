"""How a driver can divide a card into instances (MIG), and which instance a container gets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pyroclast_scheduler.model.numbers import parse_count


@dataclass(frozen=True, slots=True)
class Profile:
    """Instances of one size. `memory`: of each instance, in MiB. `count`: the number of instances."""

    name: str
    memory: int
    count: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """One way to divide a card. The instances are numbered through all profiles, in their order."""

    group: str
    profiles: tuple[Profile, ...]

    def instances(self) -> Iterator[tuple[int, Profile]]:
        """Return all instances with their numbers."""
        numbered = (profile for profile in self.profiles for _ in range(profile.count))
        return enumerate(numbered)


def pick(geometries: Sequence[Geometry], taken: Collection[str], memory: int) -> tuple[str, int] | None:
    """Return the smallest free instance with enough memory, as its name `GROUP-NUMBER` and its memory; None if there is none.

    A divided card keeps its geometry while it has users. Without users, the first geometry with such an instance is chosen.
    `taken`: the names of the instances in use, all of one geometry.
    """
    current = {split(name)[0] for name in taken}
    for geometry in geometries:
        if current and geometry.group not in current:
            continue
        free = [
            (profile.memory, number)
            for number, profile in geometry.instances()
            if profile.memory >= memory and f"{geometry.group}-{number}" not in taken
        ]
        if free:
            size, number = min(free)
            return f"{geometry.group}-{number}", size
    return None


def split(name: str) -> tuple[str, int]:
    """Return group and number of an instance; the number is −1 if the name is malformed."""
    group, _, number = name.rpartition("-")
    known = parse_count(number)
    return group, -1 if known is None else known
