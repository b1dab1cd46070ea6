"""Functions that Kubernetes adds: quantities, addresses, networks, named formats, versions, authorization."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from pyroclast.resources import quantity
from pyroclast.resources.go_text import go_quote
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.formats import FORMATS
from pyroclast_standalone.apiserver.documents.values import Json

from .authorizer import Authorizer, Decision
from .errors import CelError, NoSuchOverload
from .values import NONE, Format, Optional, Url

__all__ = ["KUBERNETES_FUNCTIONS", "KUBERNETES_METHODS", "KUBERNETES_QUALIFIED"]

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_LOCAL_MULTICAST_4: Final = ipaddress.ip_network("224.0.0.0/24")
_LOCAL_MULTICAST_6: Final = ipaddress.ip_network("ff02::/16")
_NO_NETWORK: Final = "network address parse error during conversion from string: "


def _quantity(text: Json) -> quantity.Quantity:
    if isinstance(text, quantity.Quantity):
        return text
    if not isinstance(text, str):
        raise NoSuchOverload
    try:
        return quantity.parse(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _succeeds(parse: Callable[[str], object]) -> Callable[[Json], bool]:
    def test(text: Json) -> bool:
        if not isinstance(text, str):
            raise NoSuchOverload
        try:
            parse(text)
        except (ValueError, CelError):
            return False
        return True

    return test


def _amount(value: Json) -> quantity.Quantity:
    if not isinstance(value, quantity.Quantity):
        raise NoSuchOverload
    return value


def _operand(value: Json) -> quantity.Quantity:
    if isinstance(value, int) and not isinstance(value, bool):
        return quantity.from_value(value)
    return _amount(value)


def _as_integer(value: Json) -> int:
    own = _amount(value)
    if own.millis % 1000:
        raise CelError("cannot convert value to integer")
    return own.value


def _compare(left: Json, right: Json) -> int:
    mine, theirs = _comparable(left), _comparable(right)
    return int(mine > theirs) - int(mine < theirs)


def _comparable(value: Json) -> Any:  # noqa: ANN401  # quantities or versions
    if isinstance(value, quantity.Quantity | _Version):
        return value
    raise NoSuchOverload


@dataclass(frozen=True, slots=True, order=True)
class _Version:
    """A semantic version."""

    cel_type = "kubernetes.Semver"

    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...]


_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
_RELEASED: Final = ((2, 0, ""),)  # after every pre-release


def _semver(text: Json, normalize: bool = False) -> _Version:  # as the expression gives it
    if not isinstance(text, str):
        raise NoSuchOverload
    if normalize:
        text = text.removeprefix("v")
        text += ".0" * max(0, 2 - text.partition("-")[0].count("."))
    found = _VERSION.fullmatch(text)
    if found is None:
        raise CelError(f"No Major.Minor.Patch elements found: {text}")
    pre: tuple[tuple[int, int, str], ...] = _RELEASED
    if found[4]:
        pre = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in found[4].split("."))
    return _Version(int(found[1]), int(found[2]), int(found[3]), pre)


def _ip(text: Json) -> _Address:
    if not isinstance(text, str):
        raise NoSuchOverload
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise CelError(
            f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): unable to parse IP'
        ) from None


def _cidr(text: Json) -> _Network:
    if not isinstance(text, str):
        raise NoSuchOverload
    problem = "" if "/" in text else f"{_NO_NETWORK}netip.ParsePrefix({go_quote(text)}): no '/'"
    try:
        if not problem:
            return ipaddress.ip_interface(text)
    except ValueError as error:
        problem = str(error)
    raise CelError(f"{_NO_NETWORK}{problem}")


def _url(text: Json) -> Url:
    if not isinstance(text, str):
        raise NoSuchOverload
    parts = urlsplit(text)
    if not parts.scheme and not text.startswith("/"):
        raise CelError(f"URL parse error during conversion from string: parse {go_quote(text)}: invalid URI for request")
    return Url(text)


def _of_url(read: Callable[[Any], Json]) -> Callable[[Json], Json]:
    def call(value: Json) -> Json:
        if not isinstance(value, Url):
            raise NoSuchOverload
        return read(urlsplit(value.text))

    return call


def _host(parts: Any) -> str:  # noqa: ANN401  # a split address
    return str(parts.netloc.rpartition("@")[2])


def _hostname(parts: Any) -> str:  # noqa: ANN401
    host = _host(parts)
    return host[1 : host.index("]")] if host.startswith("[") else host.partition(":")[0]


def _port(parts: Any) -> str:  # noqa: ANN401
    host = _host(parts)
    return host.rpartition("]")[2].lstrip(":") if host.startswith("[") else host.partition(":")[2]


def _family(value: Json) -> int:
    return int(value.version)


def _of_address(holds: Callable[[_Address], bool]) -> Callable[[Json], bool]:
    def call(value: Json) -> bool:
        if not isinstance(value, _Address) or isinstance(value, _Network):
            raise NoSuchOverload
        return holds(value)

    return call


def _is_local_multicast(address: _Address) -> bool:
    return address in (_LOCAL_MULTICAST_4 if address.version == 4 else _LOCAL_MULTICAST_6)


def _is_global_unicast(address: _Address) -> bool:
    is_broadcast = address.version == 4 and int(address) == 2**32 - 1
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local or is_broadcast)


def _contains_ip(network: Json, address: Json) -> bool:
    return (_ip(address) if isinstance(address, str) else address) in network.network


def _contains_cidr(network: Json, other: Json) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    return bool(inner.version == network.version and inner.network.subnet_of(network.network))


def _canonical(text: str) -> bool:
    return str(_ip(text)) == text


_LABELS: Final[Mapping[str, names.NameRule]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_service_label,
    "qualifiedName": names.label_key,
    "labelValue": names.label_value,
    "dns1123LabelPrefix": lambda value: names.dns_label(value.rstrip("-") or value),
    "dns1123SubdomainPrefix": lambda value: names.dns_subdomain(value.rstrip("-") or value),
    "dns1035LabelPrefix": lambda value: names.dns_service_label(value.rstrip("-") or value),
}
_FORMAT_NAMES: Final = {"uri": "uri", "uuid": "uuid", "byte": "byte", "date": "date", "datetime": "date-time"}


def _validate(form: Json, text: str) -> Optional:
    """What is wrong with `text`, absent when nothing is."""
    if not isinstance(form, Format):
        raise NoSuchOverload
    if form.name in _LABELS:
        wrong = _LABELS[form.name](text)
    else:
        wrong = [] if FORMATS[_FORMAT_NAMES[form.name]](text) else [f"invalid {form.name}"]
    return Optional(list(wrong), present=True) if wrong else NONE


def _named(name: str) -> Optional:
    return Optional(Format(name), present=True) if name in _LABELS or name in _FORMAT_NAMES else NONE


def _format(name: str) -> Callable[[], Format]:
    return lambda: Format(name)


def _ask(method: str) -> Callable[..., Json]:
    def call(target: Json, *args: Json) -> Json:
        if not isinstance(target, Authorizer | Decision):
            raise NoSuchOverload
        return getattr(target, method)(*args)

    return call


KUBERNETES_FUNCTIONS: Final[Mapping[str, Callable[..., Json]]] = {
    "quantity": _quantity,
    "sign": lambda value: _compare(_amount(value), quantity.parse("0")),
    "isQuantity": _succeeds(_quantity),
    "url": _url,
    "isURL": _succeeds(_url),
    "ip": _ip,
    "isIP": _succeeds(_ip),
    "cidr": _cidr,
    "isCIDR": _succeeds(_cidr),
    "semver": _semver,
    "isSemver": lambda text, *normalize: _succeeds(lambda own: _semver(own, *normalize))(text),
}
KUBERNETES_METHODS: Final[Mapping[str, Callable[..., Json]]] = {
    "isInteger": lambda value: not _amount(value).millis % 1000,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "add": lambda value, other: _amount(value) + _operand(other),
    "sub": lambda value, other: _amount(value) - _operand(other),
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "compareTo": _compare,
    "getScheme": _of_url(lambda parts: parts.scheme),
    "getHost": _of_url(_host),
    "getHostname": _of_url(_hostname),
    "getPort": _of_url(_port),
    "getEscapedPath": _of_url(lambda parts: parts.path),
    "getQuery": _of_url(lambda parts: parse_qs(parts.query, keep_blank_values=True)),
    "family": _family,
    "isUnspecified": _of_address(lambda address: address.is_unspecified),
    "isLoopback": _of_address(lambda address: address.is_loopback),
    "isLinkLocalUnicast": _of_address(lambda address: address.is_link_local),
    "isLinkLocalMulticast": _of_address(_is_local_multicast),
    "isGlobalUnicast": _of_address(_is_global_unicast),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda network: network.network.prefixlen,
    "masked": lambda network: ipaddress.ip_interface(network.network),
    "ip": lambda network: network.ip,
    "validate": _validate,
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    **{
        name: _ask(name)
        for name in (
            "group", "resource", "subresource", "namespace", "name", "path", "serviceAccount", "check", "allowed", "reason",
            "errored", "error",
        )
    },
}  # fmt: skip
KUBERNETES_QUALIFIED: Final[Mapping[str, Callable[..., Json]]] = {
    "ip.isCanonical": _canonical,
    "format.named": _named,
    **{f"format.{name}": _format(name) for name in (*_LABELS, *_FORMAT_NAMES)},
}
