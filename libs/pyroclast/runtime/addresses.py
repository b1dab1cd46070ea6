"""Listen addresses in the form of Go: `:8080`, `127.0.0.1:8080`, `[::1]:8080`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def split_address(address: str) -> tuple[str | None, int]:
    """Return host (None for all interfaces) and port of `address`; with port 0 the system chooses a port.

    Raises:
        ValueError: `address` is not an address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ValueError(f'"{address}" is not an address such as :8080 or 127.0.0.1:8080')
    return host.strip("[]") or None, int(port)


def _checked(address: str) -> str:
    split_address(address)
    return address


Address = Annotated[str, AfterValidator(_checked)]
"""A field of settings: the address on which to listen."""
