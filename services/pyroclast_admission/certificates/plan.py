"""Decides when each certificate is replaced, from the present certificates and the time alone, so that all replicas agree.

An authority is replaced in three steps: it is added to the bundle, then it issues the serving certificate, and then the old
authority is removed from the bundle. All callers and replicas have seen a step long before the next one follows, so at no moment
does a server present a certificate that a caller does not trust.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


class Step(Enum):
    """A step that changes the certificates and keys of the admission service."""

    KEEP = "keep"
    START_OVER = "start over"
    ADD_AUTHORITY = "add an authority"
    ISSUE = "issue a serving certificate"
    DROP_AUTHORITIES = "drop old authorities"


@dataclass(frozen=True, slots=True)
class Span:
    """The validity period of a certificate, without the allowance for clock skew."""

    start: datetime
    end: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether two thirds of the validity period are over. The last third leaves time for retries of the replacement."""
        return now >= self.due_at

    @property
    def due_at(self) -> datetime:
        """The time at which two thirds of the validity period are over."""
        return self.start + (self.end - self.start) * 2 / 3


@dataclass(frozen=True, slots=True)
class Serving:
    """The serving certificate. `signer`: index of the authority that signed it. `names`: host names and IP addresses."""

    span: Span
    signer: int
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """The present certificates, authorities newest first."""

    authorities: tuple[Span, ...]
    serving: Serving


@dataclass(frozen=True, slots=True)
class Policy:
    """The names and lifetimes of new certificates. `overlap`: the time within which every caller and replica sees a change."""

    names: frozenset[str]
    authority_validity: timedelta = timedelta(days=365)
    validity: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=2)


def next_step(facts: Facts | None, policy: Policy, now: datetime, known_since: datetime | None) -> Step:
    """Return the step that is due now. `facts`: None for no usable certificates. `known_since`: of the newest authority."""
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
    """Return the earliest time at which `next_step` may return another step, provided that nothing else changes."""
    newest, serving = facts.authorities[0], facts.serving
    times = [newest.due_at, serving.span.end]
    known_at = _known_at(newest, policy, known_since)
    if known_at is not None:
        times.append(known_at if serving.signer > 0 else max(serving.span.due_at, known_at))
    if serving.signer == 0 and len(facts.authorities) > 1:
        times.append(serving.span.start + policy.overlap)
    return min(times)


def _known_at(newest: Span, policy: Policy, known_since: datetime | None) -> datetime | None:
    """Return the time by which all callers use a bundle with the newest authority. None while some bundle lacks the authority."""
    return None if known_since is None else max(newest.start, known_since) + policy.overlap
