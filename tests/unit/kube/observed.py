"""An observer that remembers."""

from __future__ import annotations


class Observed:
    """Told by client and informers; requests as (verb, resource, status)."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, int]] = []
        self.incidents: list[str] = []
        self.taken = 0

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        self.requests.append((verb, resource, status))

    def events(self, resource: str, count: int) -> None:
        self.taken += count

    def incident(self, resource: str, what: str) -> None:
        self.incidents.append(what)
