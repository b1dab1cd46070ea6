"""Removes from an answer the names of Jobs that the user may not list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client


REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def without_hidden_names(client: Client, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without the names of Jobs in other namespaces that the user may not list. These Jobs are only counted.

    Raises:
        KubeError: the API server does not answer.
    """
    own = (answer.get("metadata") or {}).get("namespace")
    found = {each["namespace"] for each in _named(answer)} - {None, own}
    if not found or await _may_list(client, ""):
        return answer
    hidden = {namespace for namespace in sorted(found) if not await _may_list(client, namespace)}
    if not hidden:
        return answer
    for each in answer.get("items") or ():
        if each["namespace"] in hidden:
            each |= {"namespace": None, "name": None}
    ahead = answer.get("ahead")
    if ahead:
        kept = [each for each in ahead["jobs"] if each["namespace"] not in hidden]
        answer["ahead"] = {**ahead, "jobs": kept, "others": ahead["others"] + len(ahead["jobs"]) - len(kept)}
    answer["holders"] = [_counted(each) if each["namespace"] in hidden else each for each in answer.get("holders") or ()]
    return answer


def _named(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from answer.get("items") or ()
    yield from (answer.get("ahead") or {}).get("jobs") or ()
    yield from answer.get("holders") or ()


def _counted(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {**holder, "namespace": None, "name": None, "others": holder.get("others", 1)}


async def _may_list(client: Client, namespace: str) -> bool:
    attributes = {"group": "batch.volcano.sh", "resource": "jobs", "verb": "list", "namespace": namespace}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    body = orjson.dumps({**kind, "spec": {"resourceAttributes": attributes}})
    answer = orjson.loads(await client.request("POST", REVIEWS, body=body))
    return (answer.get("status") or {}).get("allowed") is True
