"""Expressions in the server: rules of schemas with their types, conditions of webhooks, and stored ones that do not compile."""

import pytest

from pyroclast_standalone.apiserver.documents.conditions import ConditionError, Conditions, fault_of_condition
from pyroclast_standalone.apiserver.documents.schema_rules import Rules, check_rules, reader_of, type_of

COUNT = {"type": "integer"}
MOMENT = {"type": "string", "format": "date-time"}


def schema(*rules, **properties):
    return {"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def faults(document, definition):
    errors, warnings = [], []
    Rules(definition, is_root=True).check(document, None, errors, warnings)
    return [str(each) for each in errors]


@pytest.mark.parametrize(
    ("definition", "document", "is_fit"),
    [
        (schema("self.d > timestamp('2026-01-01T00:00:00Z')", d=MOMENT), {"d": "2026-01-02T00:00:00Z"}, True),
        (schema("self.d > timestamp('2026-01-01T00:00:00Z')", d=MOMENT), {"d": "2025-01-02T00:00:00Z"}, False),
        (schema("self.n / 2.0 == 0.5", n={"type": "number"}), {"n": 1}, True),
        (schema("self.l.all(x, x > duration('1s'))", l={"type": "array", "items": {"type": "string", "format": "duration"}}),
         {"l": ["2s", "1m"]}, True),
        (schema("self.m['a'].foo__dash__bar == 1", m={"type": "object", "additionalProperties": schema(**{"foo-bar": COUNT})}),
         {"m": {"a": {"foo-bar": 1}}}, True),
        (schema("type(self.p) == int ? self.p > 0 : self.p.matches('^[0-9]+%$')", p={"x-kubernetes-int-or-string": True}),
         {"p": "10%"}, True),
        (schema("self.b == self.c", b={"type": "string", "format": "byte"}, c={"type": "string", "format": "byte"}),
         {"b": "aGk=", "c": "aGk="}, True),
        (schema("self.metadata.name.startsWith('a')"), {"metadata": {"name": "abc"}}, True),
    ],
)  # fmt: skip
def test_validation_rules_see_values_typed_by_their_schema(definition, document, is_fit):
    assert check_rules(definition, "schema", is_sound=True) == []
    assert (faults(document, definition) == []) is is_fit


@pytest.mark.parametrize(
    ("definition", "want"),
    [
        (schema("self.m > 1", n={"type": "integer"}), "undefined field 'm'"),
        (schema("self.n > 'a'", n={"type": "integer"}), "found no matching overload for '_>_' applied to '(int, string)'"),
        (schema("isIP(self.s)", s={"type": "string"}), "undeclared reference to 'isIP'"),
        (schema("self.n", n={"type": "integer"}), "must evaluate to a bool"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_refused_with_its_definition(definition, want):
    (error,) = check_rules(definition, "schema", is_sound=True)
    assert want in str(error)


def test_stored_rule_that_no_longer_compiles_makes_objects_invalid():
    definition = schema("isIP(self.s)", s={"type": "string"})
    (error,) = faults({"s": "x"}, definition)
    assert "compilation failed: undeclared reference to 'isIP'" in error


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        (MOMENT, "yesterday", "yesterday"),
        ({"type": "string", "format": "byte"}, "aGk=", b"hi"),
        ({"type": "object", "properties": {"a-b": {"type": "number"}}}, {"a-b": 1, "c": 1}, {"a-b": 1.0, "c": 1}),
    ],
)
def test_reader_converts_values_by_their_schema_type(kind, value, want):
    reader = reader_of(kind)
    assert reader is not None
    assert reader(value) == want


def test_object_schema_of_integers_has_no_reader():
    assert reader_of({"type": "object", "properties": {"a": {"type": "integer"}}}) is None
    assert type_of({"type": "array", "items": {"type": "string"}}).item.kind == "string"


def test_webhook_match_conditions_are_evaluated_and_invalid_expressions_reported():
    variables = {"object": {"a": 1}, "oldObject": None, "request": {"operation": "CREATE", "userInfo": {"groups": ["x"]}}}
    for source, want in (
        ("object.a == 1 && request.operation == 'CREATE'", True),
        ("'x' in request.userInfo.groups", True),
        ("oldObject == null", True),
        ("request.operation == 'DELETE'", False),
    ):
        assert fault_of_condition(source) == ""
        assert Conditions([{"expression": source}]).hold(variables) is want
    assert Conditions([{"expression": "object.zz"}, {"expression": "false"}]).hold(variables) is False
    for source in ("object.zz", "isIP(object.a)"):
        with pytest.raises(ConditionError, match="resulted in error"):
            Conditions([{"expression": source}, {"expression": "true"}]).hold(variables)
    for source in ("authorizer.group('').check('get').allowed()", "request.zz == 1", "object."):
        assert "compilation failed" in fault_of_condition(source)
    assert "must evaluate to bool" in fault_of_condition("1")
