"""Match conditions and admission policies: expressions over a request, evaluated.

The variables of a request: `object`, `oldObject`, `request`, `params`, `namespaceObject`, `authorizer`; an absent one is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from . import field_sets, json_patch
from .apply_check import check_configuration
from .apply_merge import merge_configuration
from .cel import DYN, CelError, CompileError, Environment, Program, compile_expression
from .cel.program import lazily
from .cel.types import BOOL, STRING, Type, list_of, map_of
from .cel.values import Message, Optional
from .errors import DocumentError
from .schema import Node
from .values import Json, Object

__all__ = [
    "ConditionError",
    "Conditions",
    "Decision",
    "MutatingPolicy",
    "ValidatingPolicy",
    "compile_checked",
    "environment_of",
]

_KIND: Final = Type("object", fields={"group": STRING, "version": STRING, "kind": STRING})
_RESOURCE: Final = Type("object", fields={"group": STRING, "version": STRING, "resource": STRING})
_USER: Final = Type(
    "object",
    fields={"username": STRING, "uid": STRING, "groups": list_of(STRING), "extra": map_of(STRING, list_of(STRING))},
)
_REQUEST: Final = Type(
    "object",
    fields={
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)


class ConditionError(Exception):
    """An expression of a condition or policy that could not be evaluated; the text quotes it."""


def environment_of(*, has_params: bool = False, variables: Iterable[str] | None = None) -> Environment:
    """What an expression of a webhook (no `variables`) or of a policy may use."""
    names: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": _REQUEST, "authorizer": DYN}
    if variables is not None:
        names["namespaceObject"] = DYN
        names["variables"] = Type("object", fields=dict.fromkeys(variables, DYN))
    if has_params:
        names["params"] = DYN
    return Environment(names)


def compile_checked(source: str, environment: Environment, wanted: Type | None = None) -> Program:
    """`source` compiled.

    Raises:
        CompileError: it does not compile or cannot give `wanted`; the text is what a definition is refused with.
    """
    try:
        program = compile_expression(source, environment)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    if wanted is not None and program.type.kind not in {wanted.kind, DYN.kind}:
        raise CompileError(f"must evaluate to {wanted} but got {program.type}")
    return program


def _value(program: Program, variables: Mapping[str, Json]) -> Json:
    try:
        return program.evaluate(variables)
    except CelError as error:
        raise ConditionError(f"expression '{program.source}' resulted in error: {error}") from None


class Conditions:
    """Match conditions, which must all hold for a webhook or policy to be asked."""

    def __init__(self, conditions: Iterable[Mapping[str, Json]], environment: Environment | None = None) -> None:
        """Compiles them.

        Raises:
            CompileError: one does not compile.
        """
        own = environment or environment_of()
        self._programs = [compile_checked(each["expression"], own, BOOL) for each in conditions]

    def hold(self, variables: Mapping[str, Json]) -> bool:
        """Whether all hold. One that does not decides, even when others cannot be evaluated.

        Raises:
            ConditionError: none is false and one could not be evaluated.
        """
        failures: list[str] = []
        for program in self._programs:
            try:
                if _value(program, variables) is not True:
                    return False
            except ConditionError as error:
                failures.append(str(error))
        if failures:
            raise ConditionError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True


class _Variables(dict[str, Json]):
    """Values of a policy's variables, each worked out when it is first read."""

    def __getitem__(self, name: str) -> Json:
        return super().__getitem__(name)()


class _Policy:
    """What validating and mutating policies share: conditions, and variables that build on each other."""

    def __init__(self, spec: Mapping[str, Json]) -> None:
        has_params = spec.get("paramKind") is not None
        self._variables: list[tuple[str, Program]] = []
        names: list[str] = []
        for variable in spec.get("variables") or ():
            environment = environment_of(has_params=has_params, variables=names)
            self._variables.append((variable["name"], compile_checked(variable["expression"], environment)))
            names.append(variable["name"])
        self._environment = environment_of(has_params=has_params, variables=names)
        self._conditions = Conditions(spec.get("matchConditions") or (), self._environment)

    def matches(self, variables: Mapping[str, Json]) -> bool:
        """Whether the policy applies to the request.

        Raises:
            ConditionError: it cannot be said.
        """
        return self._conditions.hold(self._scope(variables))

    def _scope(self, variables: Mapping[str, Json]) -> dict[str, Json]:
        scope = dict(variables)
        own = _Variables()
        scope["variables"] = own
        for name, program in self._variables:
            dict.__setitem__(own, name, lazily(lambda program=program: _value(program, scope)))  # type: ignore[misc]
        return scope


@dataclass(frozen=True, slots=True)
class Decision:
    """What one validation says against a request: the text and the reason of the refusal.

    `is_error` when the expression could not be evaluated, so that the failure policy decides.
    """

    message: str
    reason: str = "Invalid"
    is_error: bool = False


class ValidatingPolicy(_Policy):
    """A ValidatingAdmissionPolicy."""

    def __init__(self, document: Mapping[str, Json]) -> None:
        """Compiles its expressions.

        Raises:
            CompileError: one does not compile.
        """
        super().__init__(document["spec"])
        own = self._environment
        self._validations = [
            (
                each,
                compile_checked(each["expression"], own, BOOL),
                compile_checked(each["messageExpression"], own, STRING) if each.get("messageExpression") else None,
            )
            for each in document["spec"].get("validations") or ()
        ]
        self._annotations = [
            (each["key"], compile_checked(each["valueExpression"], own))
            for each in document["spec"].get("auditAnnotations") or ()
        ]

    def refusals(self, variables: Mapping[str, Json]) -> list[Decision]:
        """What the validations say against the request; empty when it may pass."""
        scope = self._scope(variables)
        found: list[Decision] = []
        for source, program, message in self._validations:
            try:
                if _value(program, scope) is True:
                    continue
                found.append(Decision(self._message(source, message, scope), source.get("reason") or "Invalid"))
            except ConditionError as error:
                found.append(Decision(str(error), is_error=True))
        return found

    def _message(self, source: Mapping[str, Json], message: Program | None, scope: Mapping[str, Json]) -> str:
        if message is not None:
            try:
                text = message.evaluate(scope)
            except CelError:
                text = ""
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        if source.get("message"):
            return str(source["message"]).strip()
        return f"failed expression: {source['expression'].strip()}"

    def annotations(self, variables: Mapping[str, Json]) -> dict[str, str]:
        """Audit annotations of the request by their keys.

        Raises:
            ConditionError: one could not be evaluated.
        """
        scope = self._scope(variables)
        values = {key: _value(program, scope) for key, program in self._annotations}
        return {key: value for key, value in values.items() if isinstance(value, str)}


class MutatingPolicy(_Policy):
    """A MutatingAdmissionPolicy."""

    def __init__(self, document: Mapping[str, Json]) -> None:
        """Compiles its expressions.

        Raises:
            CompileError: one does not compile.
        """
        super().__init__(document["spec"])
        self._mutations = [
            (each["patchType"], compile_checked(_expression(each), self._environment))
            for each in document["spec"].get("mutations") or ()
        ]

    def mutated(self, variables: Mapping[str, Json], schema: Node) -> Object:
        """The object of the request after all mutations, each of which sees what the former ones made.

        Raises:
            ConditionError: an expression could not be evaluated, or made something that is no mutation.
        """
        scope = dict(variables)
        for kind, program in self._mutations:
            value = _value(program, self._scope(scope))
            scope["object"] = _patched(scope["object"], value) if kind == "JSONPatch" else _merged(scope["object"], value, schema)
        document: Object = scope["object"]
        return document


def _expression(mutation: Mapping[str, Json]) -> str:
    holder = mutation.get("jsonPatch") if mutation["patchType"] == "JSONPatch" else mutation.get("applyConfiguration")
    return str((holder or {}).get("expression", ""))


def _plain(value: Json) -> Json:
    """`value` without types of the language: what JSON can hold."""
    if isinstance(value, Optional):
        return _plain(value.value) if value.present else None
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return value


def _patched(document: Object, operations: Json) -> Object:
    if not isinstance(operations, list):
        raise ConditionError("type mismatch: JSONPatchType.expression should evaluate to array")
    for each in operations:
        if not isinstance(each, Message) or each.name != "JSONPatch":
            text = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
            raise ConditionError(text)
    try:
        result: Object = json_patch.apply(document, _plain(operations))
    except DocumentError as error:
        raise ConditionError(f"JSON Patch: {error.message}") from None
    return result


def _merged(document: Object, configuration: Json, schema: Node) -> Object:
    if not isinstance(configuration, Message) or configuration.name != "Object":
        raise ConditionError(f"unsupported return type from ApplyConfiguration expression: {type(configuration).__name__}")
    given = _plain(configuration)
    if problems := check_configuration(given, schema):
        raise ConditionError(f"error applying patch: failed to convert patch object to typed object: {problems[0]}")
    atomic = [
        field_sets.show_path(path)
        for path in field_sets.members(field_sets.of_document(given, schema))
        if _is_atomic(path, given, schema)
    ]
    if atomic:
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise ConditionError(f"error applying patch: invalid ApplyConfiguration: {text}")
    return merge_configuration(document, given, schema)


def _is_atomic(path: tuple[str, ...], value: Json, node: Node) -> bool:
    """Whether a member is a list or map that can only be given as a whole."""
    for step in path:
        if not step.startswith("f:") or not isinstance(value, dict):
            return False
        value, node = value.get(step[2:]), node.step(step[2:])[1]
    return isinstance(value, dict | list) and bool(value) and (node.is_atomic or (node.type == "any" and isinstance(value, list)))
