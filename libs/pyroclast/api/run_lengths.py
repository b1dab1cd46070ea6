"""The run times of past Jobs, which the recorder gives to the scheduler: quantiles for each key of similar Jobs, in one
ConfigMap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.records.meta import Meta

CONFIG_MAP: Final = "pyroclast-run-lengths"
DATA_KEY: Final = "run-lengths.json"
QUANTILES: Final = 16
"""The number of quantiles of a key, evenly spaced from the shortest to the longest run time."""

LEAST_ENDS: Final = 29
"""The least number of ended Jobs of a key. With fewer, the 90th percentile has no 95 % upper bound."""

LEAST_RATIOS: Final = 20
MOST_KEYS: Final = 2_000
MOST_BYTES: Final = 256 * 1024
_VERSION: Final = 1
_PLAIN: Final = frozenset({"cpu", "memory"})
_DIGITS: Final = re.compile(r"[-.]?\d+$")

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class BadRunLengths(ValueError):
    """A ConfigMap does not have the form that the recorder writes; the text names the faulty part."""


@dataclass(frozen=True, slots=True)
class Known:
    """The data of a key: `count` ended Jobs, and the quantiles in ascending order."""

    count: int
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RunLengths:
    """Run times of Jobs in seconds, and the accuracy of users' estimates (actual / declared), both by digest of a key."""

    seconds: Mapping[str, Known] = field(default_factory=dict)
    worth: Mapping[str, Known] = field(default_factory=dict)


class _Body(msgspec.Struct, frozen=True):
    version: int
    seconds: dict[str, tuple[Count, tuple[Amount, ...]]] = {}
    worth: dict[str, tuple[Count, tuple[Amount, ...]]] = {}


def alike_keys(meta: Meta, namespace: str, queue: str, members: int, resources: Mapping[str, str | int]) -> list[str]:
    """Return the keys under which a Job is similar to others, the most specific first: its template, its name without number, its
    shape.

    `resources`: `minResources` of the PodGroup; without them, the value of `of_one_pod`.
    """
    owner = meta.controller
    name = owner.name if owner is not None else meta.name
    made_by = next(
        (meta.labels[key] for key in (keys.CREATED_BY_JOB_TEMPLATE, keys.CREATED_BY_JOB_FLOW) if key in meta.labels), ""
    )
    asked = ",".join(f"{each}={amount}" for each, amount in sorted(resources.items()))
    found = [f"name/{namespace}/{_DIGITS.sub('', name)}", f"shape/{queue}/{members}/{asked}"]
    return [f"made/{namespace}/{made_by}", *found] if made_by else found


def of_one_pod(requests: Mapping[str, int]) -> dict[str, int]:
    """Return the replacement of `minResources` for a PodGroup without them: the counted requests of its oldest pod.

    `requests`: the requests of the pod, in thousandths of each resource, memory in MiB.
    """
    return {name: amount for name, amount in requests.items() if amount and (name in _PLAIN or "/" in name)}


def worth_key(meta: Meta, namespace: str) -> str:
    """Return the key under which users' estimates are judged together: the submitter, else the namespace. The key of all is
    empty.
    """
    return meta.annotations.get(keys.SUBMITTED_BY, "") or namespace


def digest(key: str) -> str:
    """Return the short form of a key in the ConfigMap, which does not show the names in the key."""
    return blake2b(key.encode("utf-8", "replace"), digest_size=8).hexdigest()


def written_run_lengths(found: RunLengths) -> str:
    """Return the text of the ConfigMap: the first entries of the mappings, at most 2,000 keys and 256 KiB."""
    kept: dict[str, dict[str, tuple[int, Sequence[float]]]] = {"seconds": {}, "worth": {}}
    size, count = 64, 0
    for part, known in (("worth", found.worth), ("seconds", found.seconds)):
        for name, each in known.items():
            entry = (each.count, [_short(value) for value in each.quantiles])
            size += len(msgspec.json.encode({name: entry}))
            count += 1
            if size > MOST_BYTES or count > MOST_KEYS:
                break
            kept[part][name] = entry
    return msgspec.json.encode(
        {"version": _VERSION, **{part: dict(sorted(each.items())) for part, each in kept.items()}}
    ).decode()


def read_run_lengths(text: str) -> RunLengths:
    """Parse the text of a ConfigMap.

    Raises BadRunLengths: the text is too large, is not JSON of this form, or has another version.
    """
    if len(text) > MOST_BYTES:
        raise BadRunLengths(f"{DATA_KEY}: {len(text)} characters; at most {MOST_BYTES} are read")
    try:
        body = msgspec.json.decode(text, type=_Body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise BadRunLengths(f"{DATA_KEY}: {error}") from None
    if body.version != _VERSION:
        raise BadRunLengths(f"{DATA_KEY}: version is {body.version}; {_VERSION} is read")
    return RunLengths(_known("seconds", body.seconds), _known("worth", body.worth))


def _known(part: str, found: Mapping[str, tuple[int, tuple[float, ...]]]) -> dict[str, Known]:
    known = {}
    for name, (count, quantiles) in found.items():
        if len(quantiles) != QUANTILES or any(later < earlier for earlier, later in pairwise(quantiles)):
            raise BadRunLengths(f"{DATA_KEY}: {part}.{name[:40]}: there must be {QUANTILES} quantiles, none below the one before")
        known[name] = Known(count, quantiles)
    return known


def _short(value: float) -> float | int:
    """Return the value with three digits, which is more than the precision of a run time."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded == int(rounded) else rounded
