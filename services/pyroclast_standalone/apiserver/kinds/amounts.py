"""Numbers that may be given as parts of a whole: `3` or `25%`."""

from __future__ import annotations

import re
from typing import Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid

__all__ = ["check_amount", "check_at_most_all", "is_zero"]

_PERCENT: Final = re.compile(r"[0-9]+%")
_NOT_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def check_amount(value: int | str | None, path: str) -> list[FieldError]:
    """What is wrong with a number, or a number of percents, that is not below zero."""
    if value is None:
        return []
    if isinstance(value, int):
        return [] if value >= 0 else [invalid(path, value, "must be greater than or equal to 0")]
    return [] if _PERCENT.fullmatch(value) else [invalid(path, value, _NOT_PERCENT)]


def check_at_most_all(value: int | str | None, path: str) -> list[FieldError]:
    """A part may not be more than the whole."""
    too_much = isinstance(value, str) and _PERCENT.fullmatch(value) is not None and int(value[:-1]) > 100
    return [invalid(path, value, "must not be greater than 100%")] if too_much else []


def is_zero(value: int | str | None) -> bool:
    """Whether it is nothing at all."""
    return value in {None, 0} or (isinstance(value, str) and _PERCENT.fullmatch(value) is not None and int(value[:-1]) == 0)
