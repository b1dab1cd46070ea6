"""Translates errors of the API server to exceptions of the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Invalid, KubeError, Unauthorized
from pyroclast.kube.basics.errors import Forbidden as KubeForbidden
from pyroclast.kube.basics.errors import NotFound as KubeNotFound
from pyroclast.kube.credentials.config import ConfigError
from pyroclast_client.errors import Cause, Forbidden, NoCluster, NotFound, PyroclastError, Rejected

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_GROUP: Final = 2  # the position of GROUP in /apis/GROUP/VERSION/...


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Raise an exception of the client when the block raises one of the API server.

    `what` names the object, as `Job default/train`.
    """
    try:
        yield
    except (KubeError, ConfigError) as error:
        raise translated(error, what) from error


def translated(error: KubeError | ConfigError, what: str) -> PyroclastError:
    """Return the client's exception for an error of the API server."""
    match error:
        case ConfigError():
            return NoCluster(f"{error}. Set KUBECONFIG, give `context=`, or try without a cluster: `with pc.local() as c:`")
        case ConnectionFailed():
            return NoCluster(f"the API server did not answer for {what}: {error.message}. Check the address and the network")
        case Unauthorized():
            return NoCluster(f"the API server does not accept the credentials for {what}: {error.message}. Log in again")
        case KubeForbidden() if " cannot " in error.message:  # a denial by RBAC; quotas and policies are not about rights
            return _forbidden(error, what)
        case KubeNotFound():
            return NotFound(f"{what}: {error.message}. Check its name and its namespace")
        case ApiError():
            return Rejected(f"{what} is refused: {error.message}. Correct that and try again", _causes(error))
    return NoCluster(f"{what}: {error}. Try again")


def _forbidden(error: KubeForbidden, what: str) -> PyroclastError:
    parts = error.path.partition("?")[0].strip("/").split("/")
    is_core = parts[0] == "api"
    group = "" if is_core or len(parts) < _GROUP else parts[1]
    rest = parts[2 if is_core else 3 :]
    if rest[:1] == ["namespaces"] and len(rest) > _GROUP:
        rest = rest[2:]
    resource = "/".join([*rest[:1], *rest[2:3]])
    verb = _VERBS.get(error.verb.upper(), error.verb)
    if verb == "get" and len(rest) == 1:
        verb = "list"
    if not resource or verb not in {*_VERBS.values(), "list", "watch", "get"}:
        return Rejected(f"{what} is refused: {error.message}. Ask the administrator for that right")
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    message = f"{what}: {error.message}. Ask the administrator for the ClusterRole pyroclast-user, or for the rule {rule}"
    return Forbidden(message, verb=verb, resource=resource, rule=rule)


def _causes(error: ApiError) -> list[Cause]:
    causes = error.details.get("causes")
    if not isinstance(causes, list):
        return []
    named = [Cause(str(each.get("field", "")), str(each.get("message", ""))) for each in causes if isinstance(each, dict)]
    return [cause for cause in named if cause.field] if isinstance(error, Invalid) else named
