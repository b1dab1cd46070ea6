"""Match conditions and admission policies."""

import pytest

from pyroclast_standalone.apiserver import kinds
from pyroclast_standalone.apiserver.documents.cel import CompileError
from pyroclast_standalone.apiserver.documents.policies import (
    ConditionError,
    Conditions,
    Decision,
    MutatingPolicy,
    ValidatingPolicy,
)

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "1"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"x": "y"}},
}
REQUEST = {"operation": "CREATE", "userInfo": {"username": "u", "groups": ["g"]}, "namespace": "ns"}


def seen(document=POD, **more):
    return {"object": document, "oldObject": None, "request": REQUEST, "params": None, "namespaceObject": None, **more}


def condition(expression):
    return {"name": "c", "expression": expression}


@pytest.mark.parametrize(
    ("expressions", "want"),
    [
        ([], True),
        (["object.metadata.name == 'p'", "request.operation == 'CREATE'"], True),
        (["object.metadata.name == 'q'"], False),
        (["object.zz == 1", "false"], False),
        (["oldObject == null || oldObject.metadata.name == 'p'"], True),
        (["'g' in request.userInfo.groups"], True),
    ],
)
def test_conditions(expressions, want):
    assert Conditions(map(condition, expressions)).hold(seen()) is want


def test_conditions_that_cannot_be_said():
    conditions = Conditions([condition("object.zz == 1"), condition("true")])
    with pytest.raises(ConditionError, match=r"expression 'object.zz == 1' resulted in error: no such key: zz$"):
        conditions.hold(seen())


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("object.metadata.name", None),
        ("request.operation", "must evaluate to bool but got string"),
        ("request.nope == 1", "undefined field 'nope'"),
        ("params.x == 1", "undeclared reference to 'params'"),
        ("variables.x == 1", "undeclared reference to 'variables'"),
    ],
)
def test_conditions_that_do_not_compile(expression, want):
    if want is None:
        Conditions([condition(expression)])
        return
    with pytest.raises(CompileError, match=want):
        Conditions([condition(expression)])


def validating(*validations, **spec):
    return ValidatingPolicy({"spec": {"validations": list(validations), **spec}})


def test_validations_have_messages_and_reasons():
    policy = validating(
        {"expression": "object.metadata.name == 'p'"},
        {"expression": "size(object.spec.containers) > 1"},
        {"expression": "false", "message": " no ", "reason": "Forbidden"},
        {"expression": "false", "messageExpression": "'it is ' + object.metadata.name", "message": "other"},
        {"expression": "false", "messageExpression": "object.zz", "message": "fallback"},
        {"expression": "object.zz == 1"},
    )
    assert policy.refusals(seen()) == [
        Decision("failed expression: size(object.spec.containers) > 1"),
        Decision("no", "Forbidden"),
        Decision("it is p"),
        Decision("fallback"),
        Decision("expression 'object.zz == 1' resulted in error: no such key: zz", is_error=True),
    ]


def test_variables_build_on_each_other_and_are_worked_out_when_read():
    policy = validating(
        {"expression": "variables.count < params.most"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[
            {"name": "containers", "expression": "object.spec.containers"},
            {"name": "count", "expression": "size(variables.containers)"},
            {"name": "broken", "expression": "object.zz"},
        ],
        matchConditions=[condition("variables.count > 0")],
    )
    assert policy.matches(seen(params={"most": 2}))
    assert policy.refusals(seen(params={"most": 2})) == []
    assert policy.refusals(seen(params={"most": 1})) == [Decision("failed expression: variables.count < params.most")]


def test_audit_annotations():
    policy = ValidatingPolicy(
        {
            "spec": {
                "auditAnnotations": [
                    {"key": "k", "valueExpression": "'name ' + object.metadata.name"},
                    {"key": "none", "valueExpression": "null"},
                ]
            }
        }
    )
    assert policy.annotations(seen()) == {"k": "name p"}


def mutated(*mutations, document=POD):
    policy = MutatingPolicy(
        {
            "spec": {
                "mutations": [
                    {"patchType": kind, "jsonPatch" if kind == "JSONPatch" else "applyConfiguration": {"expression": expression}}
                    for kind, expression in mutations
                ]
            }
        }
    )
    return policy.mutated(seen(document), kinds.strategy_of("", "v1", "Pod").schema)


def test_apply_configurations_are_merged():
    made = mutated(
        ("ApplyConfiguration", "Object{metadata: Object.metadata{labels: {'b': '2'}}}"),
        ("ApplyConfiguration", "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'j'}]}}"),
        ("ApplyConfiguration", "Object{metadata: Object.metadata{labels: {'c': object.metadata.labels.b}}}"),
    )
    assert made["metadata"]["labels"] == {"a": "1", "b": "2", "c": "2"}
    assert [container["name"] for container in made["spec"]["containers"]] == ["c", "side"]
    assert POD["metadata"]["labels"] == {"a": "1"}


def test_json_patches_are_applied():
    operations = [
        "JSONPatch{op: 'test', path: '/metadata/name', value: 'p'}",
        "JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: '1'}",
        "JSONPatch{op: 'replace', path: '/spec/containers/0', value: Object.spec.containers{name: 'z'}}",
    ]
    made = mutated(("JSONPatch", f"[{', '.join(operations)}]"))
    assert made["metadata"]["labels"] == {"a": "1", "x/y": "1"}
    assert made["spec"]["containers"] == [{"name": "z"}]


@pytest.mark.parametrize(
    ("kind", "expression", "want"),
    [
        ("JSONPatch", "[1]", "should evaluate to array of JSONPatch"),
        ("JSONPatch", "[JSONPatch{op: 'remove', path: '/zz'}]", "JSON Patch: "),
        ("ApplyConfiguration", "{'a': 1}", "unsupported return type from ApplyConfiguration expression"),
        ("ApplyConfiguration", "Object{nope: 1}", "failed to convert patch object to typed object"),
        (
            "ApplyConfiguration",
            "Object{spec: Object.spec{nodeSelector: {'x': 'z'}}}",
            "may not mutate atomic arrays, maps or structs",
        ),
        ("ApplyConfiguration", "object.zz", "no such key: zz"),
    ],
)
def test_mutations_that_cannot_be_made(kind, expression, want):
    with pytest.raises(ConditionError, match=want):
        mutated((kind, expression))
