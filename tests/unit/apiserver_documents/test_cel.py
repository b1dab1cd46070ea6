"""The expression language: values, errors and checks against a schema."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast_standalone.apiserver.documents.cel import DYN, CelError, CompileError, Environment, compile_expression, of_schema
from pyroclast_standalone.apiserver.documents.cel.values import Duration, Optional
from tests.unit.apiserver_documents.conftest import recorded

SELF = {"a": 1, "s": "x", "l": [1, 2, 3], "m": {"k": "v"}, "foo-bar": 3, "q": "1Gi", "none": None}
VARIABLES = {"self": SELF}
ENVIRONMENT = Environment({"self": DYN})


def evaluated(source, variables=VARIABLES):
    return compile_expression(source, ENVIRONMENT).evaluate(variables)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("self.a + 1", 2),
        ("self.a == 1.0", True),
        ("-3 / 2", -1),
        ("7 % -3", 1),
        ("1u + 2u", 3),
        ("true ? 1 : 2", 1),
        ("false && self.zz", False),
        ("self.zz || true", True),
        ("'k' in self.m", True),
        ("2 in self.l", True),
        ("has(self.a) && !has(self.b)", True),
        ("self.?b.orValue(5)", 5),
        ("self.m[?'k'].hasValue()", True),
        ("optional.none().orValue(1)", 1),
        ("[1, ?self.?zz]", [1]),
        ("{?'a': self.?a}", {"a": 1}),
        ("self.foo__dash__bar", 3),
        ("r'\\d' == '\\\\d'", True),
        ("b'abc' == bytes('abc')", True),
        ("type(1) == int", True),
        ("int('5') + int(3.9)", 8),
        ("string(1) + 'x'", "1x"),
        ("self.l.all(x, x > 0)", True),
        ("self.l.exists(x, x > 2)", True),
        ("self.l.exists_one(x, x == 2)", True),
        ("self.l.map(x, x > 1, x * 2)", [4, 6]),
        ("self.l.filter(x, x > 1).size()", 2),
        ("self.m.all(k, v, v == 'v')", True),
        ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
        ("[3, 4].transformList(i, v, i * v)", [0, 4]),
        ("self.s.matches('^[a-z]$')", True),
        ("'abc'.substring(1) + 'a,b'.split(',').join('-') + 'X'.lowerAscii()", "bca-bx"),
        ("'%s is %d of %.2f'.format(['x', 3, 1.5])", "x is 3 of 1.50"),
        ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
        ("[3, 1].isSorted()", False),
        ("[1, 2, 3].sum() + [1, 2].min() + [1, 2].indexOf(2)", 8),
        ("[[1], [2]].flatten()", [1, 2]),
        ("lists.range(3)", [0, 1, 2]),
        ("sets.contains([1, 2], [1])", True),
        ("[1, 2].first().value() + [1, 2].last().orValue(0)", 3),
        ("[].first().hasValue()", False),
        ("self.a.orValue(3)", 1),
        ("has(self.s.q) || has(self.a.q)", False),
        ("'%s %e'.format([[1.0, 'a'], 1234.5])", '[1.000000, "a"] 1.234500×10⁰³'),
        ("string(ip('1.2.3.4')) + string(cidr('10.0.0.5/8').masked())", "1.2.3.410.0.0.0/8"),
        ("ip('10.0.0.1').isGlobalUnicast() && cidr('10.0.0.5/8').ip() == ip('10.0.0.5')", True),
        ("sign(quantity('-1'))", -1),
        ("duration('1h') > duration('1m')", True),
        ("timestamp('2026-01-01T00:00:00Z') + duration('1h') == timestamp('2026-01-01T01:00:00Z')", True),
        ("timestamp('2026-01-01T00:00:00Z').getDayOfWeek()", 4),
        ("quantity(self.q).isGreaterThan(quantity('1Mi'))", True),
        ("quantity('100m').add(quantity('0.9')).compareTo(quantity('1'))", 0),
        ("isQuantity('1.3Gb')", False),
        ("isIP('1.2.3.4') && ip('1.2.3.4').family() == 4", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.1.1')", True),
        ("url('https://x:80/y').getPort()", "80"),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", True),
        ("format.dns1123Label().validate('A').hasValue()", True),
        ("Object{spec: Object.spec{x: 1}}", {"spec": {"x": 1}}),
    ],
)
def test_values(source, want):
    assert evaluated(source) == want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("self.zz", "no such key: zz"),
        ("self.l[5]", "index out of bounds: 5"),
        ("1 / (self.a - 1)", "division by zero"),
        ("self.a + self.s", "no such overload"),
        ("9223372036854775807 + self.a", "integer overflow"),
        ("int(self.s)", "type conversion error from 'string' to 'int'"),
        ("self.none + 1", "no such overload: _+_"),
        ("self.s - self.s", "no such overload"),
        ("self.l < self.l", "no such overload: _<_"),
        ("size(self.a)", "no such overload: size"),
        ("self.a.hasValue()", "no such overload: hasValue(int)"),
        ("self.s.q", "no such key: q"),
        ("self.l['a']", "unsupported index type 'string' in list"),
        ("self.a.all(x, x > 1)", "got 'types.Int', expected iterable type"),
        ("duration(self.s)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("ip(self.s)", 'IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP'),
        ("'%d'.format(['x'])", "error during formatting: decimal clause can only be used on integers, was given string"),
        ("lists.range(9000000000)", "operation cancelled: actual cost limit exceeded"),
        ("timestamp(9000000000000000000)", "timestamp overflow"),
        ("timestamp(self.s)", None),
        ("quantity(self.s)", None),
        ("self.s.matches(self.s + '(')", None),
        ("[1].first().value() + [].first().value()", None),
    ],
)
def test_failures(source, want):
    with pytest.raises(CelError) as failure:
        evaluated(source)
    assert want is None or str(failure.value) == want


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("self.", "Syntax error"),
        ("foo(1)", "undeclared reference to 'foo'"),
        ("nobody", "undeclared reference to 'nobody'"),
        ("'a' + 1", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.a + true", "found no matching overload for '_+_' applied to '(dyn, bool)'"),
        ("1 == null", "found no matching overload for '_==_' applied to '(int, null)'"),
        ("true ? 1 : 'a'", "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("1.startsWith('a')", "found no matching overload for 'startsWith' applied to 'int.(string)'"),
        ("size(1)", "found no matching overload for 'size' applied to '(int)'"),
        ("duration('bad')", "invalid duration argument"),
        ("self.s.matches('(')", "invalid matches argument"),
        ("self.l.all(x, y)", "undeclared reference to 'y'"),
        ("1 +", "Syntax error"),
        ("'open", "Syntax error"),
        ("has(self)", "invalid argument to has() macro"),
        ("9223372036854775808", "invalid int literal"),
        (".", "Syntax error"),
    ],
)
def test_what_does_not_compile(source, want):
    with pytest.raises(CompileError) as failure:
        compile_expression(source, ENVIRONMENT)
    assert want in str(failure.value)


def test_rules_are_checked_against_the_schema():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "s": {"type": "string"}, "d": {"type": "string", "format": "date-time"}},
    }
    environment = Environment({"self": of_schema(schema)})
    assert compile_expression("self.a > 0 && self.s.size() < 10", environment).type.kind == "bool"
    assert compile_expression("self.d < timestamp('2026-01-01T00:00:00Z')", environment).type.kind == "bool"
    for source, want in (
        ("self.m > 1", "undefined field 'm'"),
        ("self.a > 's'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.s + self.a", "found no matching overload for '_+_' applied to '(string, int)'"),
    ):
        with pytest.raises(CompileError) as failure:
            compile_expression(source, environment)
        assert want in str(failure.value)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_whole_numbers_divide_towards_zero(a, b):
    variables = {"self": {"a": a, "b": b}}
    if b == 0:
        with pytest.raises(CelError):
            evaluated("self.a / self.b", variables)
        return
    assert evaluated("self.a / self.b * self.b + self.a % self.b == self.a", variables) is True
    assert abs(evaluated("self.a % self.b", variables)) < abs(b)


@given(st.lists(st.integers(-5, 5), max_size=6))
def test_macros_agree_with_each_other(values):
    variables = {"self": values}
    assert evaluated("self.all(x, x > 0) == !self.exists(x, !(x > 0))", variables) is True
    assert evaluated("self.filter(x, x > 0) == self.map(x, x > 0, x)", variables) is True
    assert evaluated("self.exists_one(x, x == 1) == (self.filter(x, x == 1).size() == 1)", variables) is True


@given(st.text(alphabet="self.al()[]{}'\"+-*/%<>=!&|?:,x1 ", max_size=25))
def test_any_text_compiles_or_is_refused(source):
    try:
        program = compile_expression(source, ENVIRONMENT)
    except CompileError:
        return
    with suppress(CelError):
        program.evaluate(VARIABLES)


GO_SELF, *GO_ANSWERS = recorded("cel")


def plain(value):
    """A value as it stands in `recorded/cel.jsonl`."""
    match value:
        case Optional():
            return {"some": plain(value.value)} if value.present else {"none": True}
        case bytes():
            return {"bytes": value.decode()}
        case datetime():
            return {"timestamp": f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        case Duration():
            return {"duration": value.seconds}
        case dict():
            return {str(key): plain(child) for key, child in value.items()}
        case list():
            return [plain(child) for child in value]
        case _:
            return value


@pytest.mark.parametrize("entry", GO_ANSWERS, ids=lambda entry: entry["expression"][:60])
def test_expressions_mean_what_they_mean_to_a_real_server(entry):
    if not entry.get("compiles", True):
        with pytest.raises(CompileError):
            compile_expression(entry["expression"], ENVIRONMENT)
        return
    program = compile_expression(entry["expression"], ENVIRONMENT)
    if "error" in entry:
        with pytest.raises(CelError) as failure:
            program.evaluate(GO_SELF)
        assert str(failure.value) == entry["error"]
    else:
        assert plain(program.evaluate(GO_SELF)) == entry["value"]
