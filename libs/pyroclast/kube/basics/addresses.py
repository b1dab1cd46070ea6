"""Which addresses and host names are of this machine, for servers that know their peer and for clients that know their server."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

__all__ = ["is_local", "is_local_name"]


def is_local(address: object) -> bool:
    """Whether the socket address of a peer is on this machine, like that of `kubectl port-forward`."""
    host = address[0] if isinstance(address, tuple) and address else ""
    try:
        found = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def is_local_name(host: str) -> bool:
    """Whether a Host header names this machine. A page of another site whose DNS name leads to this machine is not local."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
