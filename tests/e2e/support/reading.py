"""What `kubectl get -o json`, `kubectl create -f` and `kubectl delete --wait=false` do, without a process for each."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
import warnings
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the library does at import is not ours to mend
    from aiohttp import ClientConnectorError, ClientError, ClientOSError, ServerDisconnectedError
    from kubernetes_asyncio import client, config


SECONDS = 30.0
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SELECTORS = {"-l": "labelSelector", "--selector": "labelSelector", "--field-selector": "fieldSelector"}

TOO_MANY_REQUESTS = 429  # also of a kind that was defined a moment ago

T = TypeVar("T")


class ReadError(Exception):
    """What kubectl would say on standard error."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for; an empty `name` asks for a list, an empty `namespace` for all of them."""

    kind: str
    name: str
    namespace: str
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Resource:
    path: str
    plural: str
    namespaced: bool

    def address(self, question: Question) -> str:
        within = f"/namespaces/{question.namespace}" if self.namespaced and question.namespace else ""
        return f"{self.path}{within}/{self.plural}" + (f"/{question.name}" if question.name else "")


def question_of(arguments: tuple[str, ...]) -> Question | None:
    """What kubectl would ask the server; None for arguments that are left to kubectl."""
    namespace, query, words = "default", {}, []
    left = iter(arguments)
    for argument in left:
        if argument in ("-n", "--namespace"):
            namespace = next(left)
        elif argument in ("-A", "--all-namespaces"):
            namespace = ""
        elif argument in SELECTORS:
            query[SELECTORS[argument]] = next(left)
        elif argument.startswith("-"):
            return None
        else:
            words.append(argument)
    if len(words) == 1 and words[0].count("/") == 1:
        words = words[0].split("/")
    if not 1 <= len(words) <= 2 or "," in words[0] or "/" in "".join(words):
        return None
    return Question(words[0], words[1] if len(words) == 2 else "", namespace, query)


@dataclass(slots=True)
class Reader:
    """Asks one API server, as the administrator of `kubeconfig`."""

    kubeconfig: Path
    _api: client.ApiClient | None = None
    _resources: dict[str, Resource] = field(default_factory=dict)

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """The object or list; None for arguments that only kubectl understands.

        Raises:
            ReadError: the server refuses, does not know the kind or the object, or does not answer.
        """
        question = question_of(arguments)
        return None if question is None else _do(self._answer(question))

    def read(self, path: str, *, accept: str) -> dict[str, Any]:
        """What stands at a path, in the form that `accept` asks for.

        Raises:
            ReadError: as `get`.
        """
        return _do(asyncio.wait_for(self._ask(path, {}, accept=accept), SECONDS))

    def create(self, body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        """Make an object, in `namespace` if it says none and its kind is namespaced; what the server made of it.

        Raises:
            ReadError: as `get`.
        """
        return _do(self._create(body, namespace))

    def delete(self, *arguments: str) -> None:
        """Ask for the deletion of an object that is named as for `get`, and do not wait until it is gone.

        Raises:
            ReadError: as `get`.
        """
        question = question_of(arguments)
        assert question is not None
        assert question.name
        _do(self._answer(question, "DELETE"))

    def close(self) -> None:
        """End its connections; a later `get` makes new ones."""
        if self._api is not None:
            _do(self._api.close())
            self._api = None

    async def _answer(self, question: Question, method: str = "GET") -> dict[str, Any]:
        async with _words_of_failures():
            address = (await self._resource(question.kind)).address(question)
            found = await self._ask(address, question.query, method=method)
        if found["kind"].endswith("List"):  # whose items need not say what they are
            what = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
            found["items"] = [what | item for item in found.get("items") or ()]
        return found

    async def _create(self, body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        version = str(body["apiVersion"])
        group = version.rpartition("/")[0]
        async with _words_of_failures():
            resource = await self._resource(f"{body['kind']}.{group}" if group else body["kind"])
            within = (body.get("metadata") or {}).get("namespace") or namespace
            place = replace(resource, path=f"/apis/{version}" if group else f"/api/{version}")
            address = place.address(Question("", "", within, {}))
            try:
                return await self._ask(address, {}, method="POST", body=body)
            except ClientConnectorError:
                raise
            except (ServerDisconnectedError, ClientOSError):  # the connection was kept from before the server was started again
                return await self._ask(address, {}, method="POST", body=body)

    async def _resource(self, kind: str) -> Resource:
        word = kind.lower()
        if word not in self._resources:
            self._resources = await self._discover()
        if word not in self._resources:
            raise ReadError(f'error: the server doesn\'t have a resource type "{kind}"')
        return self._resources[word]

    async def _discover(self) -> dict[str, Resource]:
        """All names that kubectl takes for a kind; where two groups have one, the group that is listed first."""
        found: dict[str, Resource] = {}
        for path in ("/api", "/apis"):
            for group in (await self._ask(path, {}, accept=DISCOVERY))["items"]:
                name = group["metadata"].get("name", "")
                for version, each in ((one, each) for one in group["versions"] for each in one["resources"]):
                    plural = each["resource"]
                    resource = Resource(
                        f"{path}/{name}/{version['version']}" if name else f"{path}/{version['version']}",
                        plural,
                        each["scope"] == "Namespaced",
                    )
                    short = [plural, each["responseKind"]["kind"].lower(), *each.get("shortNames", ())]
                    for word in (*short, *(f"{word}.{name}" for word in short)):
                        found.setdefault(word, resource)
        return found

    async def _ask(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        accept: str = "application/json",
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        if self._api is None:
            self._api = await config.new_client_from_config(config_file=str(self.kubeconfig))
        while True:
            response = await self._api.rest_client.request(
                method,
                self._api.configuration.host + path,
                headers={"Accept": accept, "Content-Type": "application/json", **self._api.default_headers},
                query_params=query,
                body=body,
                _preload_content=False,
            )
            if response.status != TOO_MANY_REQUESTS:
                break
            await response.read()
            await asyncio.sleep(1.0)
        answer: dict[str, Any] = json.loads(await response.read())
        if not 200 <= response.status < 300:
            raise ReadError(f"Error from server ({answer.get('reason')}): {answer.get('message')}")
        return answer


@contextlib.asynccontextmanager
async def _words_of_failures() -> AsyncIterator[None]:
    """Bounds what is done, and has a failure of the connection say what it is."""
    try:
        async with asyncio.timeout(SECONDS):
            yield
    except (ClientError, OSError) as error:
        raise ReadError(f"error: {type(error).__name__}: {error}") from error


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _do(work: Coroutine[object, object, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()
