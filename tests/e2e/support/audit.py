"""What an API server logged of the requests it got."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

POD = "authentication.kubernetes.io/pod-name"


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit log; `starts` are when its server was started and when it knew all roles, in seconds since 1970."""

    log: Path
    starts: list[tuple[float, float]]

    def events(self, *stages: str) -> Iterator[dict[str, Any]]:
        """All finished requests so far, in order; `stages` asks for others: a watch begins with "ResponseStarted"."""
        full = sorted(self.log.parent.glob(f"{self.log.stem}-*{self.log.suffix}"))  # kube-apiserver begins a new one at 100 MB
        for file in (*full, self.log):
            with file.open() as lines:
                for line in lines:
                    if line.rstrip().endswith("}") and (event := json.loads(line)).get("stage") in (
                        stages or ("ResponseComplete",)
                    ):
                        event["user"].setdefault("username", "")  # of a request that nobody was found for
                        yield event

    def created(self, resource: str, namespace: str, *, since: int = 0) -> Counter[str]:
        """How often an object of each name was created in `namespace`; the first `since` events are passed over."""
        return Counter(
            str(event["objectRef"].get("name"))
            for event in islice(self.events(), since, None)
            if event["verb"] == "create"
            and event.get("objectRef", {}).get("resource") == resource
            and not event["objectRef"].get("subresource")
            and event["objectRef"].get("namespace") == namespace
            and event["responseStatus"]["code"] == 201
            and "dryRun" not in event["requestURI"]
        )

    def handovers(self, namespace: str) -> dict[str, list[float]]:
        """By Lease of `namespace`, seconds from the last write of each pod that held it to the first of the next one.

        A pod that only asks for a Lease writes it too, before the holder's last write.
        """
        writes: dict[str, list[tuple[str, float]]] = {}
        for event in self.events():
            reference = event.get("objectRef", {})
            if (
                event["verb"] in ("create", "update")
                and (reference.get("resource"), reference.get("namespace")) == ("leases", namespace)
                and event["responseStatus"]["code"] < 300
                and (pod := event["user"].get("extra", {}).get(POD))
            ):
                at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
                writes.setdefault(reference.get("name", ""), []).append((pod[0], at))
        return {lease: _pauses(each) for lease, each in writes.items()}

    def was_ready(self, timestamp: str) -> bool:
        """Whether the API server knew all roles at a time of an event; the real one serves a moment before it does."""
        asked = datetime.fromisoformat(timestamp).timestamp()
        return not any(started <= asked <= ready for started, ready in self.starts)


def _pauses(writes: list[tuple[str, float]]) -> list[float]:
    """Between the last write of each pod and the first after it, in seconds; of `writes` by pod and time, in order."""
    last = dict(writes)
    ends = sorted(last.values())[:-1]
    return [min(at for _, at in writes if at > end) - end for end in ends]
