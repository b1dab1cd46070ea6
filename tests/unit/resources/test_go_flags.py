import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.resources.go_flags import parse

DEFAULTS = {"flag": False, "on": True, "port": 22, "name": "worker"}


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], {}),
        (["--flag"], {"flag": True}),
        (["-flag"], {"flag": True}),
        (["--flag=t", "--on=F"], {"flag": True, "on": False}),
        (["--flag", "false", "--port=1"], {"flag": True}),
        (["--port", "2026"], {"port": 2026}),
        (["--port=0x10", "--name=x"], {"port": 16, "name": "x"}),
        (["--port=010"], {"port": 8}),
        (["--port=1_000"], {"port": 1000}),
        (["--port=-10"], {"port": -10}),
        (["--port=1", "--port=2"], {"port": 2}),
        (["--name=", "--flag"], {"name": "", "flag": True}),
        (["--name=x", "--", "--flag"], {"name": "x"}),
        (["--name=x", "word", "--flag"], {"name": "x"}),
        (["--name=x", "--no-such=1", "--flag"], {"name": "x"}),
        (["--name=x", "--port=many", "--flag"], {"name": "x"}),
        (["--name=x", "--port=08"], {"name": "x"}),
        (["--flag=maybe", "--name=x"], {}),
        (["--port"], {}),
        (["--port 22"], {}),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments, want):
    assert parse(arguments, DEFAULTS).values == {**DEFAULTS, **want}


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["--name=x", "word"], ("", 1)),
        (["--name=x", "--no-such=1"], ("flag provided but not defined: -no-such", 1)),
        (["--port", "many"], ('invalid value "many" for flag -port: parse error', 0)),
        (["--port=9223372036854775808"], ('invalid value "9223372036854775808" for flag -port: value out of range', 0)),
        (["--on=maybe"], ('invalid boolean value "maybe" for -on: parse error', 0)),
        (["--flag", "--port"], ("flag needs an argument: -port", 1)),
        (["--port 22"], ("flag provided but not defined: -port…", 0)),
    ],
)
def test_the_first_mistake_is_reported_with_its_argument_position(arguments, want):
    read = parse(arguments, DEFAULTS)
    assert (read.mistake, read.position) == want


def test_a_private_key_in_arguments_is_absent_from_repr_and_truncated_in_mistakes():
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "secret" * 20
    assert "secret" not in repr(parse([f"--name={key}"], DEFAULTS))
    for wrong in (f"--no-such {key}", f"--port={key}", f"--{'secret' * 20}"):
        assert parse([wrong], DEFAULTS).mistake.count("secret") <= 7


@given(st.lists(st.text()), st.booleans(), st.integers(), st.text())
def test_any_arguments_parse_without_error_and_keep_the_types_of_the_defaults(arguments, flag, port, name):
    defaults = {"flag": flag, "port": port, "name": name}
    assert {key: type(value) for key, value in parse(arguments, defaults).values.items()} == {
        "flag": bool,
        "port": int,
        "name": str,
    }
