"""Requests to the other servers of Pyroclast: the recorder, and the board or the scheduler, which explain why Jobs wait.

No command knows where these servers are: a flag, an environment variable or a ConfigMap has the URL. The board asks the scheduler
for its users. The scheduler of `pyroclast up` answers the same requests itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

import orjson

from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.basics.addresses import is_local_name
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, KubeError, NotFound
from pyroclast.kube.credentials.authorization import Anonymous, StaticCredentials
from pyroclast.kube.credentials.config import ClusterConfig, ConfigError

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # a command without requests does not load it

REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
EXPLAIN: Final = "/explain/"
WHO_AM_I: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNT: Final = "system:serviceaccount:"
AUDIENCES: Final = ("pyroclast-recorder", "pyroclast-board", "pyroclast-scheduler")
TOKEN_FILE: Final = "PYROCLAST_TOKEN_FILE"  # noqa: S105 - the name of a variable
TOKEN_SECONDS: Final = 600
TOKEN_HELP: Final = (
    "credentials of the API server are sent to no other server: write a token for it into a file and set "
    f"{TOKEN_FILE} to its path; kubectl create token ACCOUNT --audience={AUDIENCES[0]} prints one"
)
_TOKENS: WeakKeyDictionary[Client, str] = WeakKeyDictionary()
"""The token of each client, which lives no longer than a command."""
PATIENCE_SECONDS: Final = 3.0
"""How long a server may take for an answer that people wait for, and without which they get another one."""
LONGEST: Final = 300
"""The most characters of an error that are shown to a user."""


def path_of(prefix: str, *parts: str) -> str:
    """Return the path of a request, with each segment escaped, because the segments come from users."""
    return prefix + "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class Server:
    """One server.

    `variable`: the environment variable with its URL. Empty for none. `config_map`: the ConfigMap in which `pyroclast up` writes
    its `url`. `how`: the advice for a user when the URL is unknown.
    """

    name: str
    variable: str
    config_map: Key
    how: str

    async def find(self, client: Client, given: str = "") -> str:
        """Return the URL of the server: `given`, else from the variable or the ConfigMap. Empty when it is unknown.

        Raises ConfigError: the address is not a URL.
        """
        url = given or (os.environ.get(self.variable, "") if self.variable else "")
        if not url:
            try:
                url = str(((await client.get(CONFIG_MAPS, self.config_map)).get("data") or {}).get("url") or "")
            except KubeError:  # the ConfigMap does not exist or the user may not read it
                url = ""
        if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc):
            raise ConfigError(f'--{self.name}: "{url}" is no URL like http://127.0.0.1:8090')
        return url.rstrip("/")


async def request(
    client: Client,
    server: str,
    path: str,
    query: Mapping[str, str],
    body: Mapping[str, Any] | None = None,
    *,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Return the answer of the server at the URL `server`. With `body`, the request is a POST. `seconds`: for the whole of it.

    The server never gets credentials for the API server, but a token for the servers of Pyroclast; see `_own_token`.

    Raises KubeError: as for the API server; JSONDecodeError: the answer is not JSON, so that another server has this address.
    """
    from pyroclast.kube.http.client import Client  # noqa: PLC0415 - see above

    # without TLS, a token could be read on the way; and no other server lets a user act as another one
    is_safe = server.startswith("https:") or is_local_name(urlsplit(server).netloc)
    token = await _own_token(client) if is_safe and not client.config.impersonation else ""
    config = ClusterConfig(server, credentials=StaticCredentials(f"Bearer {token}") if token else Anonymous())
    given = {name: value for name, value in query.items() if value}
    async with Client(config, max_attempts=2, user_agent="vcctl") as other:
        method, content = ("GET", None) if body is None else ("POST", orjson.dumps(body))
        deadline = None if seconds is None else Deadline.after(seconds)
        answer: dict[str, Any] = orjson.loads(await other.request(method, path, query=given, body=content, deadline=deadline))
        return answer


async def _own_token(client: Client) -> str:
    """Return a token that is good for the servers of Pyroclast alone; empty where there is none.

    The variable names a file with the token. Otherwise, a ServiceAccount that may create tokens of itself gets one, and so does
    a user who may create tokens of the ServiceAccount of the same name in the namespace of the kubeconfig.
    """
    if path := os.environ.get(TOKEN_FILE, ""):
        return _read_token(path)
    if client not in _TOKENS:
        _TOKENS[client] = await _requested_token(client)
    return _TOKENS[client]


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{TOKEN_FILE}: {path}: {error}") from error


async def whoami(client: Client) -> str:
    """Return the name of the user by whose rights the client works."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = orjson.loads(await client.request("POST", WHO_AM_I, body=orjson.dumps(kind)))
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))


async def _requested_token(client: Client) -> str:
    try:
        user = await whoami(client)
        prefix, _, account = user.rpartition(":")
        namespace = prefix.removeprefix(ACCOUNT)
        if not user.startswith(ACCOUNT):  # `pyroclast user add` makes an account beside a user of a certificate
            namespace, account = client.config.namespace, user
        path = path_of("/api/v1/namespaces/", namespace, "serviceaccounts", account, "token")
        spec = {"audiences": list(AUDIENCES), "expirationSeconds": TOKEN_SECONDS}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = orjson.loads(await client.request("POST", path, body=orjson.dumps(body)))
    except KubeError:  # the user may not; the server then says what it needs
        return ""
    return str((made.get("status") or {}).get("token") or "")


RECORDER: Final = Server(
    "recorder",
    "PYROCLAST_RECORDER",
    Key("pyroclast-system", "pyroclast-recorder"),
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-recorder-service 8090:80, "
    "and then --recorder http://127.0.0.1:8090",
)
BOARD: Final = Server(
    "board",
    "PYROCLAST_BOARD",
    Key("pyroclast-system", "pyroclast-board"),
    "kubectl --namespace pyroclast-system port-forward service/pyroclast-board-service 8091:80, "
    "and then --board http://127.0.0.1:8091",
)
_SCHEDULER: Final = Server("scheduler", "", Key("pyroclast-system", "pyroclast-scheduler"), "")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the scheduler said.

    `document`: the document of the scheduler. None when it gave none. `complaint`: why there is no document, for a user. Empty
    when no server is known, or when the scheduler has not examined the object. `is_refused`: whether the scheduler refused the
    request, so that it must be changed.
    """

    document: dict[str, Any] | None = None
    complaint: str = ""
    is_refused: bool = False


async def explainers(client: Client, board: str = "") -> list[str]:
    """Return the URLs of the servers that explain: the board and the scheduler, as far as they are known.

    `board`: the URL of the board, if the user gave one. Raises ConfigError: the given address is not a URL.
    """
    return list(filter(None, (await BOARD.find(client, board), await _SCHEDULER.find(client))))


async def explained(
    client: Client,
    servers: Iterable[str],
    *parts: str,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Answer:
    """Return the answer of the first of `servers` that gives one, about a Job, a PodGroup or a queue.

    `body`: a Job that does not exist, for the question whether it would start.
    """
    answer = Answer()
    for server in servers:
        try:
            seconds = PATIENCE_SECONDS if body is None else None
            document = await request(client, server, path_of(EXPLAIN, *parts), query or {}, body, seconds=seconds)
            return Answer(await without_hidden_names(client, document))
        except ApiError as error:
            if error.message.lstrip().startswith("<"):
                continue  # an HTML page: this board passes no explanations on
            if isinstance(error, NotFound):
                return Answer()
            answer = Answer(None, _complaint(server, error.message), is_refused=error.status == 400)
        except (KubeError, orjson.JSONDecodeError) as error:
            answer = Answer(None, _complaint(server, str(error)))
    return answer


def _complaint(server: str, message: str) -> str:
    return " ".join(f"{server} gives no answer: {message}".split())[:LONGEST]


async def without_hidden_names(client: Client, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without the names of Jobs in other namespaces that the user may not list. These Jobs are only counted.

    A server without TLS does not learn who the user is, and answers with all names.
    """
    own = (answer.get("metadata") or {}).get("namespace")
    others = {each["namespace"] for each in _named(answer)} - {None, own}
    if not others or await _may_list(client, ""):
        return answer
    hidden = {namespace for namespace in sorted(others) if not await _may_list(client, namespace)}
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
