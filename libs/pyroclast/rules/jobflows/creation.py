"""Rules for a new flow: its entries form a graph without a cycle, and each is valid by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pyroclast.rules.cycles import find_cycle
from pyroclast.rules.errors import invalid
from pyroclast.rules.jobflows.entries import (
    EntrySpecs,
    check_entry,
    check_probes,
    check_size,
    check_stored_size,
    possible_rounds,
    probe_warnings,
    round_of,
    rounds,
)
from pyroclast.rules.lookups import ANY_JOB, NOTHING_KNOWN, FlowKnowledge, JobOptions
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.names import qualified_name
from pyroclast.rules.values import mapping, mappings, string_items, text
from pyroclast.rules.verdicts import Finding, Verdict, found, verdict_of


def references(entry: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the path and the name of each other entry in `entry`, and whether `entry` waits for it; else it waits for `entry`."""
    for index, target in enumerate(string_items(mapping(entry.get("dependsOn")).get("targets"))):
        yield f"{path}.dependsOn.targets[{index}]", target, True
    if target := text(mapping(entry.get("if")).get("target")):
        yield f"{path}.if.target", target, True
    for index, name in enumerate(string_items(entry.get("else"))):
        yield f"{path}.else[{index}]", name, False
    switch = mapping(entry.get("switch"))
    if target := text(switch.get("on")):
        yield f"{path}.switch.on", target, True
    for number, case in mappings(switch.get("cases")):
        for index, name in enumerate(string_items(case.get("entries"))):
            yield f"{path}.switch.cases[{number}].entries[{index}]", name, False
    for index, name in enumerate(string_items(switch.get("default"))):
        yield f"{path}.switch.default[{index}]", name, False


NOT_A_GRAPH = "jobflow Flow is not DAG"


def validate_create(flow: Mapping[str, Any], known: FlowKnowledge = NOTHING_KNOWN, options: JobOptions = ANY_JOB) -> Verdict:
    """Return the verdict on a new JobFlow. Its templates need not exist yet."""
    spec = mapping(flow.get("spec"))
    metadata = mapping(flow.get("metadata"))
    name = text(metadata.get("name"))
    findings = list(check_entries(spec, text(metadata.get("namespace")), known, options))
    return verdict_of(findings, warnings=tuple(_warnings(spec, name)))


def check_entries(spec: Mapping[str, Any], namespace: str, known: FlowKnowledge, options: JobOptions) -> Iterator[Finding]:
    """Yield all faults of the entries. The first sentence is Volcano's, which does not mention duplicates."""
    entries: dict[str, tuple[int, Mapping[str, Any]]] = {}
    latest: dict[str, tuple[int, Mapping[str, Any]]] = {}
    duplicates: list[Finding] = []
    for index, entry in mappings(spec.get("flows")):
        name = text(entry.get("name"))
        latest[name] = index, entry
        first = entries.setdefault(name, latest[name])
        if first[0] != index and not same_meaning(entry, first[1]):
            sentence = f"flows[{first[0]}] and flows[{index}] are both named {name}, but differ"
            error = invalid(f"spec.flows[{index}].name", name, f"{sentence}; name each template once")
            duplicates.append(Finding(f"{sentence};", (error,), extra=True))
    parameters = mapping(spec.get("parameters"))
    yield from _check_parameters(parameters)
    yield from _check_graph(latest, known)  # of several entries with the same name, Volcano uses the last
    yield from duplicates
    yield from _check_generated_names(entries)
    if (count := len(_REFERENCE.findall(msgspec.json.encode(dict(spec))))) > _MOST_REFERENCES:
        sentence = f"the patches of the flow have {count} references to values, at most {_MOST_REFERENCES} are possible"
        yield Finding(f"{sentence};", (invalid("spec.flows", count, sentence),), extra=True)
        return
    specs = EntrySpecs(namespace, known, parameters)
    for index, entry in entries.values():
        yield from check_entry(entry, f"spec.flows[{index}]", specs, options)
    yield from check_probes(entries, specs)
    yield from check_size(entries)
    yield from check_stored_size(spec, entries)


_REFERENCE: Final = re.compile(rb"\$\{ *(?:entries|parameters)\b")
_MOST_REFERENCES: Final = 2000
"""The most references to values in one flow: each is compiled before the flow is admitted, in about 0.1 ms."""
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_LONGEST_PARAMETER: Final = 4096
"""The most characters of the value of a parameter: as many as an output may have."""


def _check_parameters(parameters: Mapping[str, Any]) -> Iterator[Finding]:
    for name, value in parameters.items():
        fault = ""
        if not _PARAMETER.fullmatch(name):
            fault = "a name has letters, digits, _ and -, begins with a letter or _, and has at most 63 characters"
        elif not isinstance(value, str | bool | int | float):
            fault = "must be a string, a number or a boolean"
        elif isinstance(value, str) and len(value) > _LONGEST_PARAMETER:
            fault = f"has {len(value)} characters, at most {_LONGEST_PARAMETER} are possible"
        if fault:
            error = invalid(f"spec.parameters[{name[:100]}]", value if len(str(value)) < 200 else "…", fault)
            yield Finding(f"{error};", (error,), extra=True)


def _check_graph(entries: Mapping[str, tuple[int, Mapping[str, Any]]], known: FlowKnowledge) -> Iterator[Finding]:
    # each edge with the path of its field, and the field's value
    edges: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in entries}
    undefined = []
    for name, (index, entry) in entries.items():
        read = ((f"spec.flows[{index}].{field}", other, True) for field, other in known.reads(entry))
        for path, other, waits in (*references(entry, f"spec.flows[{index}]"), *read):
            if other not in entries:
                sentence = f"{NOT_A_GRAPH}: vertex is not defined: {other}"
                undefined.append(found(sentence, invalid(path, other, f"{sentence}; no entry has this name")))
            elif waits:
                edges[name].setdefault(other, (path, other))
            else:
                edges[other].setdefault(name, (path, other))
    for number, finding in enumerate(undefined):
        yield Finding(finding.sentence, finding.errors, extra=number > 0)
    if cycle := find_cycle({name: list(targets) for name, targets in edges.items()}):
        path, value = edges[cycle[0]][cycle[1]]
        error = invalid(path, value, f"{NOT_A_GRAPH}; {' → '.join(cycle)}")
        yield Finding(NOT_A_GRAPH, (error,), extra=bool(undefined))


def _check_generated_names(entries: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yield a fault for each entry that has the name of a round (`<name>-0`, `<name>-1` …) of a loop."""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for other in entries:
        loop_name, number = round_of(other)
        if number is not None:
            numbered.setdefault(loop_name, []).append((number, other))
    for name, (index, entry) in entries.items():
        loop = entry.get("for")
        if not isinstance(loop, dict):
            continue
        for number, other in numbered.get(name, ()):
            if number < possible_rounds(entry):
                sentence = f"round {number} of the loop {name} would be named {other}, which is an entry already"
                error = invalid(f"spec.flows[{index}].for", loop, sentence)
                yield Finding(f"{sentence};", (error,), extra=True)


def _warnings(spec: Mapping[str, Any], flow_name: str) -> Iterator[str]:
    seen: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for index, entry in mappings(spec.get("flows")):
        name = text(entry.get("name"))
        path = f"spec.flows[{index}]"
        first, other = seen.setdefault(name, (index, entry))
        if first != index and same_meaning(entry, other):
            yield f"{path}: the same as spec.flows[{first}], both are one entry"
        job = f"{flow_name}-{name}" + (f"-{max(0, rounds(entry) - 1)}" if isinstance(entry.get("for"), dict) else "")
        if flow_name and (problems := qualified_name(job)):
            yield f"{path}.name: its Job would be named {job}: {problems[0]}"
        patch = mapping(entry.get("patch"))
        if isinstance(patch.get("spec"), dict) and isinstance(patch.get("jobSpec"), dict):
            yield f"{path}.patch: both spec and jobSpec are given, spec is taken"
        yield from probe_warnings(entry, path)
