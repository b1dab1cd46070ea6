"""Parses resource lists in flags: `cpu=1000m,memory=100Mi`."""

from __future__ import annotations

from pyroclast.resources import quantity
from pyroclast_cli.context import Failure


def parse_resources(text: str) -> dict[str, str]:
    """Return canonical quantities by resource name.

    Raises:
        Failure: an element does not have exactly one `=`, or a value is not a quantity.
    """
    found: dict[str, str] = {}
    for element in text.split(",") if text else ():
        name, *values = element.split("=")
        if len(values) != 1:
            raise Failure(f"invalid argument syntax {element}, expected <resource>=<value>")
        try:
            found[name] = str(quantity.parse(values[0]))
        except quantity.QuantityError as error:
            raise Failure(str(error)) from error
    return found
