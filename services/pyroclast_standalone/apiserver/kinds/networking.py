"""NetworkPolicies: defaults, validation and table rows."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast.rules.podspecs.labels import check_label_selector
from pyroclast_standalone.apiserver.kinds.checks import optional_choice
from pyroclast_standalone.apiserver.kinds.rules import Rules

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")


def _default_policy(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _check_range(text: str, path: str) -> list[FieldError]:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return [invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    return [] if "/" in text else [invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]


def _check_peer(peer: Mapping[str, Any], path: str) -> list[FieldError]:
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    if not given:
        return [required(path, "must specify a peer")]
    if len(given) > 1 and "ipBlock" in given:
        return [forbidden(path, "may not specify both ipBlock and another peer")]
    errors: list[FieldError] = []
    for field in given:
        if field == "ipBlock":
            cidr = peer[field].get("cidr", "")
            errors += _check_range(cidr, f"{path}.ipBlock.cidr") if cidr else [required(f"{path}.ipBlock.cidr")]
        else:
            check_label_selector(peer[field], f"{path}.{field}", errors)
    return errors


def _check_policy(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    check_label_selector(spec.get("podSelector") or {}, "spec.podSelector", errors)
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            own = f"spec.{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or ()):
                errors += optional_choice(port, "protocol", _PROTOCOLS, f"{own}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or ()):
                errors += _check_peer(peer, f"{own}.{peers}[{at}]")
    kinds = enumerate(spec.get("policyTypes") or ())
    return [*errors, *(unsupported(f"spec.policyTypes[{index}]", kind, _TYPES) for index, kind in kinds if kind not in _TYPES)]


NETWORK_POLICY: Final = Rules(default=_default_policy, check=_check_policy, generation=True)
