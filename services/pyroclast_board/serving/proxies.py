"""Users in the headers of an authenticating proxy.

The headers are accepted only on a connection with a client certificate of the proxy's CA. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

EVERYBODY: Final = "system:authenticated"
LONGEST: Final = 1024
MOST_GROUPS: Final = 1024


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers that name users, and the certificates that may send them.

    Args:
        username_headers: headers with the user name. The first one in a request is used.
        group_headers: headers with groups, separated by commas. All of them are used.
        allowed_names: common names of certificates that may name users. Empty means every certificate of the CA.
        username_prefix: prefix of user names, as in the API server's `--oidc-username-prefix`.
        groups_prefix: prefix of group names, as in the API server's `--oidc-groups-prefix`.
    """

    username_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    allowed_names: tuple[str, ...] = ()
    username_prefix: str = ""
    groups_prefix: str = ""

    def trusts(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a connection is the proxy's. `certificate` is the verified certificate in the form of `getpeercert`."""
        if not certificate:
            return False
        return not self.allowed_names or not set(self.allowed_names).isdisjoint(common_names(certificate))

    def user(self, headers: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
        """Return the user in the headers of a trusted request. None when the headers name no user or more than one."""
        for wanted in self.username_headers:
            named = _values(headers, wanted)
            if len(named) > 1:  # the client sent one of the headers, and the proxy passed it on
                return None
            if named and named[0]:
                return self._user(named[0], headers)
        return None

    def _user(self, name: str, headers: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
        lines = [line for wanted in self.group_headers for line in _values(headers, wanted)]
        groups = [group.strip() for line in lines for group in line.split(",") if group.strip()]
        if len(groups) > MOST_GROUPS or any(len(text) > LONGEST or not text.isprintable() for text in (name, *groups)):
            return None
        prefixed = [self.groups_prefix + group for group in groups]
        return {"username": self.username_prefix + name, "groups": list(dict.fromkeys([*prefixed, EVERYBODY]))}


def common_names(certificate: Mapping[str, Any]) -> list[str]:
    """Return the common names of a certificate in the form of `getpeercert`."""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    return [value for name, value in pairs if name == "commonName"]


def forwarded_address(headers: Sequence[tuple[str, str]]) -> str | None:
    """Return the address of the proxy's client: the last one in X-Forwarded-For, which the proxy itself added."""
    last = ",".join(_values(headers, "X-Forwarded-For")).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(last))
    except ValueError:
        return None


def _values(headers: Sequence[tuple[str, str]], wanted: str) -> list[str]:
    return [value.strip() for name, value in headers if name.lower() == wanted.lower()]
