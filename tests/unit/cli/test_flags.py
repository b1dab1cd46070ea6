"""Flags as the users of the original's programs type them."""

from __future__ import annotations

import pytest

from pyroclast_cli.flags import Flag, FlagError, parse, usage_table

FLAGS = (
    Flag("name", "n", "", "the name"),
    Flag("all-namespaces", default=False, text="everywhere", kind="bool"),
    Flag("weight", "w", 1, "the weight", "int32"),
    Flag("force", "f", default=False, kind="bool"),
)


@pytest.mark.parametrize(
    ("arguments", "changed", "positional"),
    [
        ([], {}, []),
        (["--name", "x"], {"name": "x"}, []),
        (["--name=x=y"], {"name": "x=y"}, []),
        (["--name="], {"name": ""}, []),
        (["-n", "x", "more"], {"name": "x"}, ["more"]),
        (["-nx"], {"name": "x"}, []),
        (["-n=x"], {"name": "x"}, []),
        (["-fn", "x"], {"force": True, "name": "x"}, []),
        (["--all_namespaces"], {"all-namespaces": True}, []),
        (["--all-namespaces=false"], {"all-namespaces": False}, []),
        (["-w", "-3"], {"weight": -3}, []),
        (["one", "--", "-n", "x"], {}, ["one", "-n", "x"]),
        (["-"], {}, ["-"]),
    ],
)
def test_flags_and_positional_arguments_may_be_mixed(arguments, changed, positional):
    values = {flag.name: flag.default for flag in FLAGS}
    assert parse(arguments, FLAGS) == ({**values, **changed}, positional)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nmae", "x"], "unknown flag: --nmae"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["-fx"], "unknown shorthand flag: 'x' in -x"),
        (["--name"], "flag needs an argument: --name"),
        (["-n"], "flag needs an argument: 'n' in -n"),
        (
            ["-w", "much"],
            'invalid argument "much" for "-w, --weight" flag: strconv.ParseInt: parsing "much": invalid syntax',
        ),
        (
            ["-w", "2147483648"],
            'invalid argument "2147483648" for "-w, --weight" flag: strconv.ParseInt: parsing "2147483648": value out of range',
        ),
        (
            ["--all-namespaces=maybe"],
            'invalid argument "maybe" for "--all-namespaces" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
    ],
)
def test_invalid_flag_is_named_in_the_error(arguments, message):
    with pytest.raises(FlagError) as caught:
        parse(arguments, FLAGS)
    assert str(caught.value) == message


def test_the_usage_lists_flags_in_order_with_their_defaults():
    assert usage_table(FLAGS).splitlines() == [
        "      --all-namespaces   everywhere",
        "  -f, --force            ",
        "  -n, --name string      the name",
        "  -w, --weight int32     the weight (default 1)",
    ]
