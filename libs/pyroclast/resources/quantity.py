"""Kubernetes quantities: exact parsing, arithmetic and canonical printing.

A quantity is a whole number of nanos, and a family of suffixes for printing. The integers are unbounded, so no quantity is
rounded or overflows. Kubernetes' library uses 64 bits, and prints `1000E` as `1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, total_ordering
from typing import Final

MAX_VALUE: Final = 2**63 - 1
"""The largest value of a quantity with a binary suffix, as in Kubernetes."""

_NANOS: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_BY_POWER: Final = {0: "", **{power: suffix for suffix, power in _BINARY_SUFFIXES.items()}}

# Bounds on the computation for an untrusted text: far above any real resource, far below a noticeable cost.
_MAX_LENGTH: Final = 512
_MAX_EXPONENT: Final = 1024
_CACHED: Final = 16_384  # distinct texts; a cluster has a few hundred

_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC_WRONG = "unable to parse numeric part of quantity"
_SUFFIX_WRONG = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a quantity; the message is Kubernetes'."""


class Format(StrEnum):
    """The family of suffixes with which a quantity is printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount. Comparison and hash depend only on the amount: `1` equals `1000m`."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    @property
    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return _divide_away_from_zero(self.nanos, _NANOS)

    @property
    def millis(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nanos, _NANOS_PER_MILLI)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is zero."""
        return self.nanos == 0

    def __float__(self) -> float:
        return self.nanos / _NANOS

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nanos * factor, self.format)

    def __str__(self) -> str:
        """Return the canonical form: without a fraction, with the largest suffix that keeps the amount exact."""
        if self.nanos == 0:
            return "0"
        if self.format is Format.BINARY_SI and self.nanos % _NANOS == 0 and abs(self.nanos) >= 1024 * _NANOS:
            return _binary_text(self.nanos // _NANOS)
        return _decimal_text(self.nanos, with_exponent=self.format is Format.DECIMAL_EXPONENT)


ZERO: Final = Quantity(0)


def parse(text: str | float) -> Quantity:
    """Return the quantity of `text` (or of a JSON number); parts below a nano are rounded away from zero.

    Raises QuantityError: `text` is not a quantity.
    """
    if isinstance(text, str):
        return _parse(text)
    if isinstance(text, bool):
        raise QuantityError(_FORMAT_WRONG)
    return Quantity(text * _NANOS) if isinstance(text, int) else _parse(repr(text))


def from_value(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:  # noqa: A002  # the word of the API
    """Return the quantity of `value` whole units."""
    return Quantity(value * _NANOS, format)


def from_millis(millis: int, format: Format = Format.DECIMAL_SI) -> Quantity:  # noqa: A002  # the word of the API
    """Return the quantity of `millis` thousandths."""
    return Quantity(millis * _NANOS_PER_MILLI, format)


@lru_cache(maxsize=_CACHED)
def _parse(text: str) -> Quantity:
    matched = _GRAMMAR.fullmatch(text)
    if matched is None or not text:
        raise QuantityError(_FORMAT_WRONG)
    if len(text) > _MAX_LENGTH:
        raise QuantityError(_NUMERIC_WRONG)
    sign, whole, fraction, suffix = matched.group("sign", "whole", "fraction", "suffix")
    digits = whole + (fraction or "")
    multiplier, exponent, family = _interpret(suffix)
    if not digits and (exponent < -9 or multiplier >= 1024**5):
        raise QuantityError(_NUMERIC_WRONG)  # in all other cases no digits mean zero, as in Kubernetes
    nanos = _scale_to_nanos(int(digits or "0") * multiplier, exponent - len(fraction or ""))
    if family is Format.BINARY_SI:
        nanos = min(nanos, MAX_VALUE * _NANOS)
        if 0 < nanos < _NANOS:
            family = Format.DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, family)


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Return the multiplier, the decimal exponent and the family of a suffix."""
    if suffix in _DECIMAL_SUFFIXES:
        return 1, _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 1024 ** _BINARY_SUFFIXES[suffix], 0, Format.BINARY_SI
    if matched := _EXPONENT.fullmatch(suffix):
        exponent = int(matched[1])
        if exponent > _MAX_EXPONENT:
            raise QuantityError(_NUMERIC_WRONG)
        return 1, max(exponent, -_MAX_EXPONENT), Format.DECIMAL_EXPONENT
    raise QuantityError(_SUFFIX_WRONG)


def _scale_to_nanos(digits: int, exponent: int) -> int:
    """Return `digits` × 10^`exponent` units in nanos, rounded away from zero."""
    shift = exponent + 9
    power: int = 10 ** abs(shift)
    return digits * power if shift >= 0 else _divide_away_from_zero(digits, power)


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _binary_text(value: int) -> str:
    power = 0
    while power < 6 and value % 1024 == 0:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_BY_POWER[power]}"


def _decimal_text(nanos: int, *, with_exponent: bool) -> str:
    amount, exponent = nanos, -9
    while amount % 1000 == 0 and (with_exponent or exponent < 18):
        amount //= 1000
        exponent += 3
    if with_exponent:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_BY_EXPONENT[exponent]}"
