"""How a driver can cut a card into instances (MIG), and which instance a container gets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pyroclast_scheduler.model.numbers import parse_count

__all__ = ["Geometry", "Profile", "pick", "split"]


@dataclass(frozen=True, slots=True)
class Profile:
    """Instances of one size: `memory` in MiB of each, and how many there are."""

    name: str
    memory: int
    count: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """One way to cut a card: instances are numbered through all its profiles, in their order."""

    group: str
    profiles: tuple[Profile, ...]

    def instances(self) -> Iterator[tuple[int, Profile]]:
        """All instances by number."""
        numbered = (profile for profile in self.profiles for _ in range(profile.count))
        return enumerate(numbered)


def pick(geometries: Sequence[Geometry], taken: Collection[str], memory: int) -> tuple[str, int] | None:
    """The smallest free instance with enough memory, as its name `GROUP-NUMBER` and its memory; None if there is none.

    A card that is cut stays as it is until nobody uses it: then the first geometry with such an instance is taken. `taken`: the
    names of the instances in use, all of one geometry.
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
    """Group and number of an instance; the number −1 where the name makes no sense."""
    group, _, number = name.rpartition("-")
    known = parse_count(number)
    return group, -1 if known is None else known
