"""When which certificate is replaced. Pure: from what there is and the time to the next step.

An authority is replaced in three steps: the new authority is added to the bundle, the serving certificate is issued by it, and
the old one is dropped. All callers and replicas have seen a step long before the next one is taken. At no moment does a server
show a certificate that a caller does not trust. What step comes next follows from the certificates themselves, so nothing else
needs to be kept, and every replica comes to the same conclusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

__all__ = ["Facts", "Policy", "Serving", "Span", "Step", "next_step", "next_time"]


class Step(Enum):
    """What to do to the material."""

    KEEP = "keep"
    START_OVER = "start over"
    ADD_AUTHORITY = "add an authority"
    ISSUE = "issue a serving certificate"
    DROP_AUTHORITIES = "drop old authorities"


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when a certificate lives; clock skew aside."""

    start: datetime
    end: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether two thirds of its life are over: the last third is time to replace it, whatever goes wrong."""
        return now >= self.due_at

    @property
    def due_at(self) -> datetime:
        """When two thirds of its life are over."""
        return self.start + (self.end - self.start) * 2 / 3


@dataclass(frozen=True, slots=True)
class Serving:
    """The serving certificate: `signer` is the index of its authority; `names` are those it is for."""

    span: Span
    signer: int
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """The certificates there are, authorities newest first."""

    authorities: tuple[Span, ...]
    serving: Serving


@dataclass(frozen=True, slots=True)
class Policy:
    """For how long certificates live, and how long every caller and replica is given to see a change."""

    names: frozenset[str]
    authority_validity: timedelta = timedelta(days=365)
    validity: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=2)


def next_step(facts: Facts | None, policy: Policy, now: datetime, known_since: datetime | None) -> Step:
    """What is to be done now.

    Args:
        facts: what there is; None: nothing, or nothing that fits together.
        policy: how it should be.
        now: the time.
        known_since: from when on every caller was seen to trust the newest authority; None: not yet.
    """
    if facts is None or now >= facts.authorities[0].end:
        return Step.START_OVER
    newest, serving = facts.authorities[0], facts.serving
    if newest.is_due(now):
        return Step.ADD_AUTHORITY
    if now >= serving.span.end or not policy.names <= serving.names:
        return Step.ISSUE
    known_at = _known_at(newest, policy, known_since)
    known_everywhere = known_at is not None and now >= known_at
    if known_everywhere and (serving.signer > 0 or serving.span.is_due(now)):
        return Step.ISSUE
    if len(facts.authorities) > 1 and serving.signer == 0 and now >= serving.span.start + policy.overlap:
        return Step.DROP_AUTHORITIES
    return Step.KEEP


def next_time(facts: Facts, policy: Policy, known_since: datetime | None) -> datetime:
    """The earliest moment after which `next_step` may say something else than it does now, if nothing changes."""
    newest, serving = facts.authorities[0], facts.serving
    times = [newest.due_at, serving.span.end]
    known_at = _known_at(newest, policy, known_since)
    if known_at is not None:
        times.append(known_at if serving.signer > 0 else max(serving.span.due_at, known_at))
    if serving.signer == 0 and len(facts.authorities) > 1:
        times.append(serving.span.start + policy.overlap)
    return min(times)


def _known_at(newest: Span, policy: Policy, known_since: datetime | None) -> datetime | None:
    """When callers that were told of the newest authority have taken it up."""
    return None if known_since is None else max(newest.start, known_since) + policy.overlap
