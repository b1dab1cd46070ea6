"""IP addresses, in the forms that older fields of the API take."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid

__all__ = ["check_address", "check_endpoint_address", "check_range", "is_ipv4", "parse_address", "parse_range", "warn_of_address"]

_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
_LEADING_ZERO: Final = re.compile(r"(^|\.)0\d")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address | None:
    """The address that `text` is; leading zeros in its numbers do not count."""
    plain = ".".join(str(int(each)) if each.isdigit() else each for each in text.split(".")) if "." in text else text
    try:
        return ipaddress.ip_address(plain)
    except ValueError:
        return None


def is_ipv4(text: str) -> bool:
    """Whether `text` is an address of IPv4."""
    return isinstance(parse_address(text), ipaddress.IPv4Address)


def check_address(text: str, path: str) -> list[FieldError]:
    """What is wrong with `text` as an address."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, _NO_ADDRESS)]
    if isinstance(address, ipaddress.IPv4Address) and _LEADING_ZERO.search(text):
        return [invalid(path, text, "must not have leading 0s")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(path, text, "must not be an IPv4-mapped IPv6 address")]
    return []


def parse_range(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The range that `text` is, counted from its first address."""
    base, slash, bits = text.partition("/")
    address = parse_address(base)
    if address is None or not slash or not bits.isdigit() or int(bits) > address.max_prefixlen:
        return None
    return ipaddress.ip_network(f"{address}/{int(bits)}", strict=False)


def check_range(text: str, path: str) -> list[FieldError]:
    """What is wrong with `text` as a range of addresses."""
    if parse_range(text) is None:
        return [invalid(path, text, _NO_RANGE)]
    base, _, bits = text.partition("/")
    errors = []
    if is_ipv4(base) and _LEADING_ZERO.search(base):
        errors.append(invalid(path, text, "must not have leading 0s in IP"))
    if len(bits) > 1 and bits.startswith("0"):
        errors.append(invalid(path, text, "must not have leading 0s in prefix length"))
    return errors


def warn_of_address(text: str, path: str) -> list[str]:
    """Addresses of IPv6 that are not in their usual form."""
    address = parse_address(text)
    if isinstance(address, ipaddress.IPv6Address) and str(address) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")']
    return []


def check_endpoint_address(text: str, path: str) -> list[FieldError]:
    """What is wrong with `text` as an address that others send to."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    if address.is_unspecified:
        return [invalid(path, text, f"may not be unspecified ({text})")]
    if address.is_loopback:
        return [invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if address.is_link_local:
        return [invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    if any(address.version == each.version and address in each for each in _LINK_LOCAL_MULTICAST):
        return [invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")]
    return []
