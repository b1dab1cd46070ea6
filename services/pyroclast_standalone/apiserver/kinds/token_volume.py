"""The volume in which a pod finds the token of its service account, as the server itself adds it: nearly every pod has one."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["TOKEN_PATH", "TOKEN_PROJECTION", "token_projection"]

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where it is mounted
_SECONDS: Final = 3607


def token_projection() -> dict[str, Any]:
    """The `projected` source of the volume."""
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
                }
            },
        ],
        "defaultMode": 420,
    }


TOKEN_PROJECTION: Final = token_projection()
"""To compare with: nothing is wrong with it."""
