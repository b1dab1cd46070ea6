"""The values of Slurm's options (times, sizes, devices, nodes, indexes, dependencies, signals) as the fields of a Job.

Each function raises ValueError with the reason and what helps.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyroclast.resources import durations, quantity

SECOND: Final = 10**9
MOST: Final = 2**31 - 1
MOST_NODES: Final = 1000
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_SIZE: Final = re.compile(r"([0-9]{1,15})([KMGT]?)B?", re.IGNORECASE)
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?(?::([0-9]{1,10}))?")
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def number(text: str, *, least: int = 1) -> int:
    """Return a whole number."""
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= MOST:
        raise ValueError(f'"{text}" is not a whole number from {least} to {MOST}')
    return int(text)


def run_time(text: str) -> str:
    """Return a time limit of Slurm as a Go duration; empty for none."""
    if text.upper() in {"UNLIMITED", "INFINITE", "0", "-1"}:
        return ""
    days, dash, rest = text.partition("-")
    parts = (rest if dash else text).split(":")
    if not all(_NUMBER.fullmatch(part) for part in (*parts, *([days] if dash else []))) or len(parts) > 3:
        raise ValueError(f'"{text}" is no time; write minutes, H:MM:SS, D-HH or D-HH:MM:SS')
    counts = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = [*counts, 0, 0][:3]
    elif len(counts) == 3:
        hours, minutes, seconds = counts
    else:
        hours, minutes, seconds = 0, *[*counts, 0][:2]
    return durations.shown(((int(days) if dash else 0) * 86400 + hours * 3600 + minutes * 60 + seconds) * SECOND)


def moment(text: str) -> str:
    """Return a deadline as RFC 3339, or as a duration after the submission."""
    if text.startswith("now+"):
        match = re.fullmatch(r"([0-9]{1,9})([a-z]*)", text.removeprefix("now+"))
        seconds = _UNITS.get(match[2].rstrip("s") or "second") if match else None
        if match is None or seconds is None:
            raise ValueError(f'"{text}" is no time; write now+2hours, or 2026-12-31T18:00')
        return durations.shown(int(match[1]) * seconds * SECOND)
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError:
        raise ValueError(f'"{text}" is no time; write now+2hours, or 2026-12-31T18:00') from None


def size(text: str, *, times: int = 1) -> str:
    """Return an amount of memory, by default in MiB, as a quantity."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is no size; write 4G or 500M')
    if int(match[1]) == 0:
        raise ValueError("0 means all memory of a node, which cannot be asked for; say how much: 64G")
    return str(quantity.parse(f"{int(match[1]) * times}{(match[2] or 'M').upper()}i"))


class Devices(NamedTuple):
    """A number of devices of one extended resource, and the type of GPU."""

    resource: str
    amount: int
    type: str = ""


GPU: Final = "nvidia.com/gpu"


def gpus(text: str) -> Devices:
    """Return `[TYPE:]N`."""
    kind, _, count = text.rpartition(":")
    return Devices(GPU, number(count), kind)


def generic(text: str) -> list[Devices]:
    """Return the value of `--gres`."""
    devices = []
    for each in text.split(","):
        name, *rest = each.removeprefix("gres:").partition("(")[0].removeprefix("gres/").split(":")
        if name == "gpu" and len(rest) <= 2:
            last = rest[-1] if rest else "1"
            is_count = bool(_NUMBER.fullmatch(last))
            devices.append(Devices(GPU, number(last) if is_count else 1, rest[0] if len(rest) == 2 or not is_count else ""))
        elif "/" in name and len(rest) <= 1:
            devices.append(Devices(name, number(rest[0]) if rest else 1))
        else:
            raise ValueError(f'"{each}" is not known; write gpu:2, gpu:a100:2, or the extended resource: example.com/device:2')
    return devices


def nodes(text: str) -> int:
    """Return the number of nodes."""
    least, dash, most = text.partition("-")
    if dash and least != most:
        raise ValueError(f'"{text}" is a range; a Job has a fixed number of pods: --nodes={least}')
    return number(least)


class Array(NamedTuple):
    """The indexes of an array in ascending order, and how many may run at once; 0 for all."""

    indexes: str
    most: int


def array(text: str) -> Array:
    """Return the value of `--array`."""
    indexes, percent, most = text.partition("%")
    ranges = []
    for part in indexes.strip("[]").split(","):
        match = _RANGE.fullmatch(part)
        if match is None or (match[2] and int(match[2]) < int(match[1])) or (match[3] and not match[2]) or match[3] == "0":
            raise ValueError(f'"{part}" is no index and no range; write 0-9, 1,3,5 or 0-100:4')
        ranges.append((int(match[1]), part))
    return Array(",".join(part for _, part in sorted(ranges)), number(most) if percent else 0)


CONDITIONS: Final = {
    "after": "Started",
    "afterok": "Succeeded",
    "afterany": "Ended",
    "afternotok": "Failed",
    "aftercorr": "Succeeded",
}
SINGLETON: Final = "singleton"


def dependencies(text: str) -> list[dict[str, Any]]:
    """Return `spec.after`. An entry with the key `singleton` stands for the earlier Jobs of the name."""
    if "?" in text:
        raise ValueError("all dependencies must be satisfied: separate them by commas; any of them (?) is refused")
    after: list[dict[str, Any]] = []
    for part in text.split(","):
        kind, *jobs = part.split(":")
        if kind == SINGLETON and not jobs:
            after.append({SINGLETON: True})
            continue
        condition = CONDITIONS.get(kind)
        if condition is None or not jobs or not all(jobs):
            kinds = ", ".join((*CONDITIONS, SINGLETON))
            raise ValueError(f'"{part}" is no dependency; write KIND:NAME, where KIND is one of {kinds}')
        for job in jobs:
            if "+" in job or "_" in job:
                what = "a delay" if "+" in job else "an element of an array"
                raise ValueError(f'"{job}" names {what}, for which no Job can wait; name the Job alone')
            after.append({"job": job, "condition": condition, **({"index": "same"} if kind == "aftercorr" else {})})
    return after


def warning_signal(text: str) -> dict[str, Any]:
    """Return `spec.signalBefore`."""
    before, _, seconds = text.partition("@")
    kind, colon, name = before.rpartition(":")
    if colon and kind != "B":
        raise ValueError(f'"{kind}:" is refused; write USR1@120 or B:USR1@120')
    try:
        known = signal.Signals(int(name)) if name.isdecimal() else signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise ValueError(f'there is no signal "{name}"; write USR1@120') from None
    return {"signal": known.name.removeprefix("SIG"), "seconds": number(seconds) if seconds else 60}


def node_names(text: str) -> list[str]:
    """Return the names in a list such as `node[1-3,7],other`."""
    names = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)?", text):
        match = re.fullmatch(r"([^\[]*)\[([0-9,-]+)\](.*)", part)
        if match is None:
            names.append(part)
            continue
        for piece in match[2].split(","):
            first, dash, last = piece.partition("-")
            low, high = number(first, least=0), number(last, least=0) if dash else number(first, least=0)
            if high - low >= MOST_NODES:
                raise ValueError(f"[{piece}] names more than {MOST_NODES} nodes")
            names += [f"{match[1]}{each:0{len(first)}d}{match[3]}" for each in range(low, high + 1)]
    if not names or len(names) > MOST_NODES or any("[" in name for name in names):
        raise ValueError(f'"{text}" is no list of up to {MOST_NODES} nodes; write node1,node2 or node[1-4]')
    return names


def feature_terms(text: str) -> list[list[Mapping[str, Any]]]:
    """Return the terms of a constraint, one of which must hold; all expressions of a term must hold."""
    if set(text) & set("[]()*"):
        raise ValueError(f'"{text}": counts and groups are refused; write KEY=VALUE, KEY, & and |')
    terms: list[list[Mapping[str, Any]]] = []
    for term in text.split("|"):
        expressions: list[Mapping[str, Any]] = []
        for feature in re.split(r"[&,]", term):
            key, equals, value = feature.strip().partition("=")
            if not key:
                raise ValueError(f'"{text}": a feature is missing; write KEY=VALUE, KEY, & and |')
            expressions.append(
                {"key": key, "operator": "In", "values": [value]} if equals else {"key": key, "operator": "Exists"}
            )
        terms.append(expressions)
    return terms


def exported(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `--export`. Commas within quotes belong to a value."""
    variables: dict[str, str] = {}
    for part in re.findall(r"""(?:[^,"']|"[^"]*"|'[^']*')+""", text):
        name, equals, value = part.replace('"', "").replace("'", "").partition("=")
        if name.upper() in {"ALL", "NONE", "NIL"} and not equals:
            continue
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f'"{name}" is no name of a variable')
        if not equals and name not in environ:
            continue  # as Slurm does
        variables[name] = value if equals else environ[name]
    return variables
