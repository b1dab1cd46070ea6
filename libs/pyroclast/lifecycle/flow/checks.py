"""What admission asks about the entries of a flow: the faults of expressions, and the Jobs that the entries would make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pyroclast.api.records import FlowEntry, reading
from pyroclast.expressions import members_read
from pyroclast.lifecycle.flow import expressions
from pyroclast.lifecycle.flow.patch import PatchError, patched
from pyroclast.lifecycle.flow.references import Path, Place, Reference, pieces, place_of, shown, sources_of, substituted, texts_of
from pyroclast.lifecycle.flow.uses import Purpose, check_scripts, entries_read, expressions_in, patch_of, uses_of


class EntryKnowledge:
    """What the rules of flows ask for (`FlowKnowledge`). `template`: returns the spec of a JobTemplate by namespace and name.

    A field of the wrong type is left to the schema.
    """

    def __init__(self, template: Callable[[str, str], Mapping[str, Any] | None]) -> None:
        self._template = template

    def patched(self, namespace: str, entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the spec of the Job of a flow entry; None without its template. PatchError: the patch does not fit."""
        template = self._template(namespace, str(entry.get("name") or ""))
        if template is None:
            return None
        if (record := _record(entry)) is None:
            raise PatchError("patch", "is nested too deeply")
        return trial_spec(template, record, parameters)

    def expression_faults(self, entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the field below the entry and the fault of each faulty expression."""
        record = _record(entry) if _EXPRESSIVE & entry.keys() else None
        return iter(()) if record is None else faults_of(record, parameters)

    def reads(self, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the field below the entry and the name of each entry that its expressions read."""
        return ((field, name) for name, field in reads_of(entry).items())


def reads_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the entries that the expressions of an entry read, each with the field of the expression."""
    record = _record(entry) if _EXPRESSIVE & entry.keys() else None
    if record is None:
        return {}
    sources = [(field, source) for _, field, source in expressions_in(record)]
    fields: dict[str, str] = {}
    for field, source in (*sources, *(("patch", source) for source in uses_of(record).sources)):
        fields |= {name: fields.get(name, field) for name in entries_read(source)}
    return fields


_EXPRESSIVE: Final = frozenset({"if", "switch", "for", "patch"})
"""The fields of an entry in which expressions stand."""


def _record(entry: Mapping[str, Any]) -> FlowEntry | None:
    """Return the record of an entry; None when its patch is nested too deeply."""
    try:
        return reading.convert(entry, FlowEntry)
    except RecursionError:
        return None


def faults_of(entry: FlowEntry, parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field and the fault of each faulty expression of an entry; `parameters` are those of its flow."""
    for purpose, field, source in expressions_in(entry):
        wanted = expressions.ITEMS if purpose is Purpose.ITEMS else expressions.CONDITION
        fault = expressions.check(source, wanted, in_loop=purpose is Purpose.UNTIL)
        if fault := fault or _reading_fault(source, parameters):
            yield field, fault
    try:
        patch = patch_of(entry)
        if patch is None:
            return
        sources_of(patch)
    except PatchError as error:
        yield error.path, error.problem
        return
    for path, text in texts_of(patch):
        for part in pieces(text):
            if isinstance(part, Reference) and (fault := _reference_fault(part, path, parameters)):
                yield shown(path), fault


def _reference_fault(reference: Reference, path: Path, parameters: Mapping[str, Any]) -> str:
    if fault := expressions.check(reference.source, expressions.VALUE) or _reading_fault(reference.source, parameters):
        return fault
    if reference.reads_entries and place_of(path) is None:
        return (
            "outputs must not stand here: they may be values of env, command, args, image, workingDir, resources, labels, "
            "annotations, nodeSelector, claimName, and numbers of pods; a parameter may stand here"
        )
    return ""


def _reading_fault(source: str, parameters: Mapping[str, Any]) -> str:
    for name in members_read(source, "parameters"):
        if name is None:
            return 'name each parameter: parameters.NAME or parameters["NAME"]'
        if name not in parameters:
            known = ", ".join(sorted(parameters)[:10]) or "none"
            return f"spec.parameters has no {name}; it has {known}"
    if any(name is None for name in members_read(source, "entries")):
        return 'name each entry: entries.NAME or entries["NAME"]'
    return ""


_EXAMPLES: Final[Mapping[Place | None, Any]] = {Place.COUNT: 1, Place.TEXT: "1", Place.EXPANDED: "1"}
"""Values for outputs that do not exist yet, when the rules check the Job that an entry would make."""


def trial_spec(template: Mapping[str, Any], entry: FlowEntry, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of the Job of an entry with the values of parameters, and with examples of outputs.

    Raises PatchError: the patch does not fit the template, or a value would become a part of a program.
    """
    raw = bytes(entry.patch)
    whole = msgspec.json.decode(raw) if raw not in (b"", b"null") else {}
    if patch_of(entry) is not None:
        variables = {"parameters": parameters, "entries": {}, "targets": {}}

        def value_at(reference: Reference, path: Path) -> Any:  # noqa: ANN401 - JSON
            if reference.reads_entries:
                return _EXAMPLES.get(place_of(path), "1")
            try:
                return expressions.value_of(reference.source, variables)
            except expressions.ExpressionProblem as problem:
                raise PatchError(shown(path), str(problem)) from None

        check_scripts(template, whole, entry)
        whole = substituted(whole, value_at)
    elif entry.loop is not None and entry.loop.items_from:
        check_scripts(template, whole, entry)
    return patched(template, whole)
