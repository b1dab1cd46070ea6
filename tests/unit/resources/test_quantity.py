"""Quantities: what the original library answers, and the laws of arithmetic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.resources.quantity import MAX_VALUE, Format, Quantity, QuantityError, from_millis, from_value, parse

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_WRONG = "unable to parse numeric part of quantity"
SUFFIX_WRONG = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("text", "want", "value", "millis"),
    [
        ("0", "0", 0, 0),
        ("0Ki", "0", 0, 0),
        ("+", "0", 0, 0),
        ("1500m", "1500m", 2, 1500),
        ("2000m", "2", 2, 2000),
        ("1.5", "1500m", 2, 1500),
        (".5", "500m", 1, 500),
        ("1.G", "1G", 10**9, 10**12),
        ("1e3", "1e3", 1000, 10**6),
        ("1.5e3", "1500", 1500, 1_500_000),
        ("5e+3", "5e3", 5000, 5_000_000),
        ("1E", "1E", 10**18, 10**21),
        ("1000E", "1000E", 10**21, 10**24),
        ("1e21", "1e21", 10**21, 10**24),
        ("1000000", "1M", 10**6, 10**9),
        ("1024", "1024", 1024, 1_024_000),
        ("1024Ki", "1Mi", 2**20, 1000 * 2**20),
        ("1000Ki", "1000Ki", 1_024_000, 1_024_000_000),
        ("1.5Gi", "1536Mi", 3 * 2**29, 3000 * 2**29),
        ("-1.5Gi", "-1536Mi", -3 * 2**29, -3000 * 2**29),
        ("0.5Ki", "512", 512, 512_000),
        ("1.1Mi", "1153433600m", 1_153_434, 1_153_433_600),
        ("16Ei", "9223372036854775807", MAX_VALUE, MAX_VALUE * 1000),
        ("0.0000000001", "1n", 1, 1),
        ("-0.1n", "-1n", -1, -1),
        ("1e-10", "1e-9", 1, 1),
        ("1e-999999", "1e-9", 1, 1),
        ("12.345678901234M", "12345678901234u", 12_345_679, 12_345_678_902),
    ],
)
def test_quantities_have_canonical_text_and_round_away_from_zero(text, want, value, millis):
    quantity = parse(text)
    assert str(quantity) == want
    assert quantity.value == value
    assert quantity.millis == millis


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", FORMAT_WRONG),
        ("1 ", FORMAT_WRONG),
        ("1\n", FORMAT_WRONG),
        ("1e3k", FORMAT_WRONG),
        ("1.2.3", FORMAT_WRONG),
        ("1,5", FORMAT_WRONG),
        ("١", FORMAT_WRONG),
        ("abc", FORMAT_WRONG),
        ("1i", SUFFIX_WRONG),
        ("1e", SUFFIX_WRONG),
        ("1mi", SUFFIX_WRONG),
        ("1ee3", SUFFIX_WRONG),
        ("Ei", NUMERIC_WRONG),
        ("1e1000000000", NUMERIC_WRONG),
        ("1" * 10_000, NUMERIC_WRONG),
    ],
)
def test_invalid_quantities_raise_the_error_message_of_kubernetes(text, want):
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert str(caught.value) == want


def test_json_numbers_are_parsed_as_quantities_and_booleans_are_refused():
    assert str(parse(3)) == "3"
    assert str(parse(0.25)) == "250m"
    assert str(parse(1e-7)) == "100e-9"
    with pytest.raises(QuantityError):
        parse(True)


def test_a_sum_of_quantities_uses_the_format_of_the_first_nonzero_operand():
    assert str(parse("1Gi") + parse("1000")) == "1073742824"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("2") - parse("500m")) == "1500m"
    assert str(-parse("1Ki") * 3) == "-3Ki"


def test_quantities_compare_and_hash_by_value():
    assert parse("1000m") == parse("1")
    assert hash(parse("1024Mi")) == hash(parse("1Gi"))
    assert parse("999m") < parse("1") <= parse("1000m")
    assert max(parse("1G"), parse("1Gi")) == parse("1Gi")
    assert float(parse("250m")) == 0.25
    assert not parse("0")
    assert parse("0").is_zero
    assert from_millis(1500) == parse("1.5")
    assert str(from_value(1024, Format.BINARY_SI)) == "1Ki"


QUANTITIES = st.builds(Quantity, st.integers(-(10**24), 10**24), st.sampled_from(Format))
TEXTS = st.from_regex(
    r"\A[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]{1,2}))?\Z", fullmatch=True
)


@given(TEXTS)
@settings(max_examples=300)
def test_the_canonical_text_of_any_valid_quantity_parses_to_the_same_quantity(text):
    quantity = parse(text)
    again = parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(QUANTITIES, QUANTITIES, QUANTITIES)
@settings(max_examples=200)
def test_quantity_addition_is_commutative_and_associative_and_keeps_the_order(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) - b == a
    assert (a < b) == (a + c < b + c)
    assert abs(a.value) * 10**9 >= abs(a.nanos) > (abs(a.value) - 1) * 10**9
    assert abs(a.millis) * 10**6 >= abs(a.nanos) > (abs(a.millis) - 1) * 10**6


@given(QUANTITIES)
@settings(max_examples=200)
def test_the_canonical_text_is_exact(quantity):
    capped = quantity.format is Format.BINARY_SI and abs(quantity.value) > MAX_VALUE
    if not capped:
        assert parse(str(quantity)) == quantity
