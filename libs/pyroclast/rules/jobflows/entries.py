"""Rules for single entries of a flow: contradictory statements, and Jobs that could not be created."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from pyroclast.api.jobs import JobSpec
from pyroclast.api.records import MOST_ROUNDS
from pyroclast.resources.durations import DurationError, nanoseconds
from pyroclast.rules.errors import FieldError, invalid, required
from pyroclast.rules.jobs import check_template_spec
from pyroclast.rules.lookups import FlowKnowledge, JobOptions
from pyroclast.rules.values import items, mapping, mappings, string_items, text
from pyroclast.rules.verdicts import Finding

_MOST_STORED: Final = 1_450_000
"""The most bytes of a flow with its status. The store accepts 1.5 MiB, including the object's metadata."""
_MOST_PATCHED: Final = 4 * 1024 * 1024
"""The most bytes of specs that are made to check one flow: enough for 1,000 ordinary templates, or three of the largest."""
_ROW_BYTES: Final = 200
"""Bytes of one Job in the shortest form of the status, besides the name of its entry."""
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,9}")
_PROBES: Final = ("httpGetList", "tcpSocketList", "taskStatusList")


class EntrySpecs:
    """The specs of the Jobs of entries, each made once from its template and patch, and `_MOST_PATCHED` bytes at the most.

    A small flow may name a large template thousands of times. The rest is checked when the Jobs are created.
    """

    def __init__(self, namespace: str, known: FlowKnowledge, parameters: Mapping[str, Any]) -> None:
        self._namespace, self.known, self.parameters, self._left = namespace, known, parameters, _MOST_PATCHED
        self._specs: dict[str, Mapping[str, Any] | None] = {}

    def of(self, entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the spec; None without a template, or when too much was made. ValueError: the patch does not fit."""
        name = text(entry.get("name"))
        if name not in self._specs:
            spec = self.known.patched(self._namespace, entry, self.parameters) if self._left > 0 else None
            self._left -= len(msgspec.json.encode(spec)) if spec is not None else 0
            self._specs[name] = spec
        return self._specs[name]


def check_entry(entry: Mapping[str, Any], path: str, specs: EntrySpecs, options: JobOptions) -> Iterator[Finding]:
    """Yield all faults of the entry at `path`. The template is checked if it exists already."""
    name = text(entry.get("name"))
    faulty = [invalid(f"{path}.{field}", name, fault) for field, fault in specs.known.expression_faults(entry, specs.parameters)]
    for error in (*_statements(entry, path), *faulty):
        yield Finding(f"entry {name}: {error};", (_of_entry(error, name),), extra=True)
    if not faulty:
        yield from _patch(entry, path, specs, options)


def check_size(entries: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yield a fault when the loops of the flow make too many Jobs."""
    jobs = sum(rounds(entry) for _, entry in entries.values())
    if jobs > MOST_ROUNDS:
        sentence = f"the loops of the flow would make {jobs} Jobs, at most {MOST_ROUNDS} are possible"
        yield Finding(f"{sentence};", (invalid("spec.flows", jobs, sentence),), extra=True)


def check_stored_size(spec: Mapping[str, Any], entries: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yield a fault when the flow is too large to be stored with the shortest status, which has a row for each Job."""
    jobs = {name: min(possible_rounds(entry), MOST_ROUNDS) if entry.get("for") else 1 for name, (_, entry) in entries.items()}
    spare = max(0, sum(is_open_loop(entry) for _, entry in entries.values()) - 1)  # all open loops share one limit
    rows = sum(number * (_ROW_BYTES + len(name)) for name, number in jobs.items()) - spare * MOST_ROUNDS * _ROW_BYTES
    needed = len(msgspec.json.encode(dict(spec))) + rows
    if needed > _MOST_STORED:
        sentence = f"the flow would need {needed} bytes with the status of its Jobs, at most {_MOST_STORED} can be stored"
        error = invalid("spec.flows", len(entries), f"{sentence}; split it into several flows")
        yield Finding(f"{sentence};", (error,), extra=True)


def check_probes(entries: Mapping[str, tuple[int, Mapping[str, Any]]], specs: EntrySpecs) -> Iterator[Finding]:
    """Yield a fault for each probe of a task that no target has. Entries with a target whose tasks are unknown are skipped."""
    tasks_of: dict[str, set[str] | None] = {}
    for name, (index, entry) in entries.items():
        depends = mapping(entry.get("dependsOn"))
        probe = mapping(depends.get("probe"))
        targets = [target for target in string_items(depends.get("targets")) if target in entries]
        if not probe or not targets:
            continue
        for target in targets:
            if target not in tasks_of:
                tasks_of[target] = _tasks(entries[target][1], specs)
        tasks = [tasks_of[target] for target in targets]
        if any(each is None for each in tasks):
            continue
        for kind in _PROBES:
            for number, one in mappings(probe.get(kind)):
                task = text(one.get("taskName"))
                if task and not any(task in each for each in tasks if each is not None):
                    path = f"spec.flows[{index}].dependsOn.probe.{kind}[{number}].taskName"
                    error = invalid(path, task, f"no target of {name} has a task of this name")
                    yield Finding(f"entry {name}: {error};", (_of_entry(error, name),), extra=True)


def probe_warnings(entry: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield warnings for probes without the expected effect."""
    depends = mapping(entry.get("dependsOn"))
    probe = mapping(depends.get("probe"))
    if any(items(probe.get(kind)) for kind in _PROBES) and not items(depends.get("targets")):
        yield f"{path}.dependsOn.probe: has no effect without targets"
    for kind in _PROBES[:2]:
        for number, one in mappings(probe.get(kind)):
            if not one.get("port"):
                yield f"{path}.dependsOn.probe.{kind}[{number}].port: without a port the probe never passes"


def rounds(entry: Mapping[str, Any]) -> int:
    """Return the number of rounds of an entry's loop."""
    loop = mapping(entry.get("for"))
    count, values = loop.get("count"), items(loop.get("items"))
    return len(values) if values else count if isinstance(count, int) else 0


def is_open_loop(entry: Mapping[str, Any]) -> bool:
    """Whether the number of rounds of an entry's loop is only known while the flow runs."""
    return bool(text(mapping(entry.get("for")).get("itemsFrom")))


def possible_rounds(entry: Mapping[str, Any]) -> int:
    """Return the largest possible number of rounds of an entry's loop."""
    return MOST_ROUNDS if is_open_loop(entry) else rounds(entry)


def round_of(name: str) -> tuple[str, int | None]:
    """Return the name of the loop and the number of the round in a name such as `LOOP-3`; the number is None for any other."""
    loop, _, number = name.rpartition("-")
    return loop, int(number) if _NUMBER.fullmatch(number) else None


def _statements(entry: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    condition = entry.get("if")
    if isinstance(condition, dict):
        by_target, by_expression = bool(text(condition.get("target"))), bool(text(condition.get("expression")))
        if by_target == by_expression:
            yield invalid(f"{path}.if", condition, "must have either target (with phase) or expression")
    elif items(entry.get("else")):
        yield required(f"{path}.if", "else is what runs when if does not hold")
    switch = entry.get("switch")
    if isinstance(switch, dict) and not text(switch.get("on")):
        yield required(f"{path}.switch.on", "the entry whose outcome is asked for")
    for number, case in mappings(mapping(switch).get("cases")):
        if sum(case.get(name) is not None for name in ("phase", "exitCode", "expression")) != 1:
            yield invalid(f"{path}.switch.cases[{number}]", case, "must have one of phase, exitCode and expression")
    loop = entry.get("for")
    if isinstance(loop, dict) and (loop.get("count") is not None) + bool(items(loop.get("items"))) + is_open_loop(entry) != 1:
        yield invalid(f"{path}.for", loop, "must have one of count, items and itemsFrom")
    backoff = text(mapping(entry.get("retry")).get("backoff"))
    if backoff:
        try:
            if nanoseconds(backoff) < 0:
                yield invalid(f"{path}.retry.backoff", backoff, "must not be negative")
        except DurationError as error:
            yield invalid(f"{path}.retry.backoff", backoff, f"{error}; a duration such as 30s or 5m is expected")


def _patch(entry: Mapping[str, Any], path: str, specs: EntrySpecs, options: JobOptions) -> Iterator[Finding]:
    """Yield the faults of the Job that results from the template and the patch."""
    name = text(entry.get("name"))
    if not mapping(entry.get("patch")) and not mapping(entry.get("for")).get("itemsFrom"):
        return
    try:
        spec = specs.of(entry)
    except ValueError as error:
        fault = _of_entry(invalid(f"{path}.patch", entry.get("patch"), str(error)), name)
        yield Finding(f"entry {name}: the patch does not fit: {error};", (fault,), extra=True)
        return
    if spec is None:
        return
    if faults := list(_schema_faults(spec, f"{path}.patch.spec")):
        for fault in faults:
            yield Finding(f"entry {name}: the patch makes an invalid Job: {fault};", (_of_entry(fault, name),), extra=True)
        return
    for finding in check_template_spec(spec, f"{path}.patch.spec", options, name=name):
        sentence = f"entry {name}: the patch makes an invalid Job: {finding.sentence.strip()}"
        yield Finding(sentence, tuple(_of_entry(error, name) for error in finding.errors), extra=True)


def _of_entry(error: FieldError, name: str) -> FieldError:
    """Return the error with the name of the entry, because users may only see the fields of the error."""
    return replace(error, detail=f"{error.detail} (entry {name})" if error.detail else f"entry {name}")


def _schema_faults(spec: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the violations of the schema by a patched spec; the patch itself has no schema."""
    try:
        JobSpec.model_validate(spec)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False):
            where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
            yield invalid(f"{path}{where}", problem["input"], problem["msg"])


def _tasks(entry: Mapping[str, Any], specs: EntrySpecs) -> set[str] | None:
    """Return the tasks of an entry's Job; None when they are unknown."""
    try:
        spec = specs.of(entry)
    except ValueError:
        return None  # the fault is reported for the entry itself
    if spec is None:
        return None
    return {text(task.get("name")) or f"default{index}" for index, task in mappings(spec.get("tasks"))}
