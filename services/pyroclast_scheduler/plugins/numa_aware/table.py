"""The Numatopologies of a session by row of the node table. Nodes of one profile are examined once, not for each pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.plugins.numa_aware.layouts import Inside
from pyroclast_scheduler.plugins.numa_aware.policies import ALIGNING

NO_CPUS: Final = "cpu allocatable map is empty"


class Profile(NamedTuple):
    """The properties of a node that decide whether the node must be examined for a pod."""

    is_there: bool = False
    is_sound: bool = True
    is_static: bool = False
    policy: str = ""
    has_cpus: bool = False


def policy_refusal(profile: Profile, policy: str) -> str | None:
    """Return why a pod with that NUMA policy is refused by all nodes of the profile; None if the node must be examined."""
    if not profile.is_sound:
        return "numa info is malformed"
    if not profile.is_there:
        return "numa info is empty"
    if not profile.is_static:
        return "cpu manager policy isn't static"
    if profile.policy != policy:
        return f"task topology policy[{policy}] is different with node[{profile.policy}]"
    return None if profile.has_cpus else "no topo information"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The NUMA topology of all nodes, by row of the snapshot.

    `by_row`: the structure of each node, None if it is unknown. `profiles`: a mask of the nodes of each profile.
    """

    by_row: Sequence[Inside | None]
    profiles: Mapping[Profile, Bools]

    @classmethod
    def of(cls, names: Sequence[str], found: Mapping[str, Inside], problems: Mapping[str, str]) -> Table:
        """Return the table of the nodes `names`."""
        by_row = [found.get(name) for name in names]
        rows: dict[Profile, list[int]] = {}
        for row, (name, inside) in enumerate(zip(names, by_row, strict=True)):
            profile = Profile(is_sound=name not in problems) if inside is None else _profile(inside)
            rows.setdefault(profile, []).append(row)
        profiles: dict[Profile, Bools] = {}
        for profile, alike in rows.items():
            profiles[profile] = np.zeros(len(names), dtype=np.bool_)
            profiles[profile][alike] = True
        return cls(by_row, profiles)

    def closed(self, policy: str) -> list[Refusal]:
        """Return the nodes that refuse all pods with a NUMA policy, by reason; none for pods without a policy."""
        masks: dict[str, Bools] = {}
        for profile, mask in self.profiles.items() if policy else ():
            why = policy_refusal(profile, policy)
            if why is not None:
                masks[why] = masks[why] | mask if why in masks else mask
        return [Refusal(mask, why, Code.ERROR, is_steady=True) for why, mask in masks.items()]

    def concerned(self, policy: str) -> Bools | None:
        """Return a mask of the nodes that must be examined for pods with this NUMA policy; None if there are none.

        The policy is empty for pods that have no NUMA policy.
        """
        masks = [
            mask
            for profile, mask in self.profiles.items()
            if (policy_refusal(profile, policy) is None if policy else profile.is_static and profile.policy in ALIGNING)
        ]
        return np.logical_or.reduce(masks) if masks else None


def _profile(inside: Inside) -> Profile:
    return Profile(is_there=True, is_sound=True, is_static=inside.is_static, policy=inside.policy, has_cpus=inside.has_cpus)
