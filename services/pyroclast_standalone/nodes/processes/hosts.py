"""The /etc/hosts of a pod, with which processes find each other by the names of a cluster's DNS. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_DOMAIN = "cluster.local"

Named = tuple[str, tuple[str, ...]]
"""An address and its names."""


def names_of(address: str, *, hostname: str, subdomain: str, namespace: str) -> Named | None:
    """Return the address of a pod with its DNS names. None without a subdomain, for which DNS has no names either."""
    if not subdomain or not address:
        return None
    full = f"{hostname}.{subdomain}"
    return address, (full, f"{full}.{namespace}", f"{full}.{namespace}.svc", f"{full}.{namespace}.svc.{_DOMAIN}")


def hosts_file(own: Named, others: Iterable[Named], aliases: Iterable[Mapping[str, Any]]) -> str:
    """Return the hosts file of a pod: its own address, its host aliases, and the other pods."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", _line(own)]
    lines += [_line((str(alias.get("ip")), tuple(alias.get("hostnames") or ()))) for alias in aliases]
    lines += [_line(named) for named in sorted(others)]
    return "\n".join(lines) + "\n"


def _line(named: Named) -> str:
    return f"{named[0]}\t{' '.join(named[1])}"
