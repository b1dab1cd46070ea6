"""What an audit log tells of pods and nodes, read again from its begin: who was bound where, who was there at the end.

The log must be one that `binds.watched_binds` had annotated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.support.binds import HOOK

_OVER = {"Succeeded", "Failed"}
_NEVER = "9"  # after all timestamps


@dataclass(slots=True)
class Stay:
    """A pod: `since` when it was surely on its node, `until` when the first request came that may have ended it; timestamps.

    Between a request and its answer nobody outside of the API server knows which of two was first: so no pod is taken to be where
    it may not be. `is_foreign`: it was made with its node. `binds` are those that had success; `reason` is why it failed.
    """

    uid: str
    name: str
    gang: str
    cpu: int
    node: str = ""
    since: str = _NEVER
    until: str = _NEVER
    is_foreign: bool = False
    binds: int = 0
    refusals: int = 0
    reason: str = ""

    @property
    def is_there(self) -> bool:
        return bool(self.node) and self.until == _NEVER


@dataclass(slots=True)
class Ledger:
    """All pods by UID, in the order of their creation, and the nodes that were deleted."""

    stays: dict[str, Stay] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Ledger:
        ledger = cls()
        for event in sorted(events, key=lambda event: str(event["stageTimestamp"])):
            ledger._take(event)
        return ledger

    def _take(self, event: Mapping[str, Any]) -> None:
        reference, code = event.get("objectRef") or {}, event["responseStatus"]["code"]
        if reference.get("resource") == "nodes" and event["verb"] == "delete" and code == 200:
            self.lost.add(reference["name"])
        said = {name.removeprefix(f"{HOOK}/"): text for name, text in (event.get("annotations") or {}).items() if HOOK in name}
        if reference.get("resource") != "pods" or not said or "dryRun" in event["requestURI"]:
            return
        came, answered = str(event["requestReceivedTimestamp"]), str(event["stageTimestamp"])
        if event["verb"] == "create" and not reference.get("subresource"):
            if code == 201:
                stay = self.stays[said["uid"]] = Stay(said["uid"], said["name"], said["gang"], int(said["cpu"]), said["node"])
                stay.is_foreign = bool(stay.node)
                stay.since = answered if stay.node else _NEVER
            return
        pod = self.stays.get(said["uid"])
        if pod is None:  # made before anybody looked
            return
        match reference.get("subresource", ""):
            case "binding" if code == 201:
                pod.binds += 1
                pod.node, pod.since = said["node"], answered
            case "binding":
                pod.refusals += 1
            case "status" if code == 200 and said["phase"] in _OVER:
                pod.until, pod.reason = min(pod.until, came), said["reason"]
            case "" if code == 200 and (said["grace"] == "0" or not pod.node):
                pod.until = min(pod.until, came)

    def of_gang(self, gang: str) -> list[Stay]:
        """All pods that the gang ever had, by the name of its PodGroup."""
        return [stay for stay in self.stays.values() if stay.gang == gang]

    def there(self, gang: str) -> list[Stay]:
        """The members of the gang that have a node in the end."""
        return [stay for stay in self.of_gang(gang) if stay.is_there]

    def bound_twice(self) -> list[str]:
        """Pods that had more than one bind, and names of which two have a node in the end."""
        names = Counter((stay.gang, stay.name) for stay in self.stays.values() if stay.is_there)
        return [stay.name for stay in self.stays.values() if stay.binds > 1] + [name for (_, name), n in names.items() if n > 1]

    def over_committed(self, room: Mapping[str, int]) -> list[str]:
        """When which node was given more than its thousandths of a CPU.

        Somebody else's pods count at the end alone: what is taken while a bind is under way is for the node to refuse.
        """
        steps: list[tuple[str, int, Stay]] = []
        for stay in self.stays.values():
            if stay.since < stay.until and not stay.is_foreign:
                steps += [(stay.since, 1, stay), (stay.until, -1, stay)]
            elif stay.is_foreign and stay.is_there:
                steps.append((_NEVER, 1, stay))
        used: Counter[str] = Counter()
        found = []
        for when, sign, stay in sorted((step for step in steps if step[:2] != (_NEVER, -1)), key=lambda step: step[:2]):
            used[stay.node] += sign * stay.cpu
            if sign > 0 and used[stay.node] > room[stay.node]:
                found.append(f"{when} {stay.node}: {used[stay.node]} of {room[stay.node]} with {stay.name}")
        return found
