"""The content of the Secret: the trusted authorities, the key of the newest one, and the serving certificate with its key."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
BUNDLE: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Material:
    """Certificates and keys in PEM.

    Attributes:
        authorities: the certificates of the authorities that callers trust, newest first.
        authority_key: the private key of the newest authority.
        certificate: the serving certificate.
        key: the private key of the serving certificate.
    """

    authorities: tuple[bytes, ...]
    authority_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def bundle(self) -> bytes:
        """The certificates of all trusted authorities, in PEM, one after another."""
        return b"".join(authority if authority.endswith(b"\n") else authority + b"\n" for authority in self.authorities)


def from_secret(secret: Mapping[str, Any]) -> Material | None:
    """Read the certificates and keys from a Secret. None when one of them is missing or is not base64."""
    data = secret.get("data")
    if not isinstance(data, dict):
        return None
    try:
        parts = {name: base64.b64decode(data[name], validate=True) for name in (CERTIFICATE, KEY, BUNDLE, AUTHORITY_KEY)}
    except (KeyError, TypeError, ValueError):  # the part is missing, is no text, or is no base64
        return None
    authorities = tuple(_PEM.findall(parts[BUNDLE]))
    return Material(authorities, parts[AUTHORITY_KEY], parts[CERTIFICATE], parts[KEY]) if authorities else None


def to_secret(material: Material) -> dict[str, str]:
    """Return the `data` of the Secret with these certificates and keys."""
    parts = {
        CERTIFICATE: material.certificate,
        KEY: material.key,
        BUNDLE: material.bundle,
        AUTHORITY_KEY: material.authority_key,
    }
    return {name: base64.b64encode(value).decode() for name, value in parts.items()}
