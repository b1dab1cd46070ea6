"""Plugin extender against a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.shell.extender import LARGEST_ANSWER, HttpExtender
from tests.scenarios import objects
from tests.scenarios.runner import feed


class Server:
    """Answers by path; `asked` is what it was sent."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[dict[str, Any]], Any] | bytes | int] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.removeprefix("/api/")
                server.asked.append((verb, body))
                answer = server.answers.get(verb, 404)
                self.send_response(answer if isinstance(answer, int) else 200)
                self.end_headers()
                if not isinstance(answer, int):
                    self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer(body)).encode())

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/api/"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def allocated(server: Server, **arguments: Any) -> tuple[dict[str, str], Session]:
    cache = Cache()
    tables = {"nodes": [["n1", 4, "8Gi"], ["n2", 4, "8Gi"]], "queues": [["q", {}]], "podgroups": [["j", "q", 1]]}
    feed(cache, {**tables, "pods": [["p", "j", "-", 1, "1G"]]})
    given = {"extender.urlPrefix": server.url, **{f"extender.{key}": value for key, value in arguments.items()}}
    entry = PluginEntry("extender", arguments=given)
    settings = Configuration(("allocate",), ((PluginEntry("gang"), PluginEntry("predicates"), entry),))
    commits: list = []
    ports = Ports(objects.NOW, commits.append, extender=HttpExtender())
    session = Session(cache.snapshot(), settings, registry.plugins(), ports, uid="session")
    registry.actions()["allocate"](session, Arguments())
    session.close_plugins()
    return {cache.tasks[uid].name: node for commit in commits for binds in commit.binds for uid, node in binds.placed}, session


def test_it_refuses_nodes(server):
    server.answers["predicate"] = lambda body: {"status": "not here", "code": 2} if body["node"]["Name"] == "n1" else {}
    assert allocated(server, predicateVerb="predicate")[0] == {"p": "n2"}
    assert server.asked[0][1]["task"]["Name"] == "p"


def test_it_is_asked_again_when_somebody_has_left_the_node(server):
    def says(body):
        is_alone = body["node"]["Releasing"]["MilliCPU"] > 0
        return {} if is_alone else {"status": "too noisy", "code": 2}

    server.answers["predicate"] = says
    tables = {
        "nodes": [["n", 8, "8Gi"]],
        "queues": [["q", {}]],
        "podgroups": [["low", "q", 0, {"phase": "Running", "class": 1}], ["high", "q", 1, {"class": 9}]],
        "pods": [["noisy", "low", "n", 1, "1Gi"], ["p", "high", "-", 1, "1Gi"]],
    }
    cache, commits = Cache(), []
    feed(cache, tables)
    entry = PluginEntry("extender", arguments={"extender.urlPrefix": server.url, "extender.predicateVerb": "predicate"})
    settings = Configuration(("preempt",), ((PluginEntry("gang"), PluginEntry("priority"), PluginEntry("predicates"), entry),))
    ports = Ports(objects.NOW, commits.append, extender=HttpExtender())
    session = Session(cache.snapshot(), settings, registry.plugins(), ports, uid="session")
    registry.actions()["preempt"](session, Arguments())
    assert [each.task.name for commit in commits for each in commit.evictions] == ["noisy"]


def test_its_scores_decide(server):
    server.answers["prioritize"] = lambda body: {"nodeScore": {"n1": 1, "n2": 50}, "errorMessage": ""}
    assert allocated(server, prioritizeVerb="prioritize")[0] == {"p": "n2"}


@pytest.mark.parametrize(("ignorable", "binds"), [(True, {"p": "n1"}), (False, {})])
def test_without_an_answer_things_go_on_only_where_it_is_ignorable(server, ignorable, binds):
    got, session = allocated(server, predicateVerb="gone", ignorable=ignorable)
    assert got == binds
    assert any("404" in warning for warning in session.warnings)


def test_it_is_told_of_places_and_of_the_session(server):
    for verb in ("open", "close", "allocate"):
        server.answers[verb] = lambda body: {}
    allocated(server, onSessionOpenVerb="open", onSessionCloseVerb="close", allocateFuncVerb="allocate")
    assert [verb for verb, _ in server.asked] == ["open", "allocate", "close"]


def test_pods_without_its_resources_are_none_of_its_business(server):
    server.answers["predicate"] = lambda body: {"status": "never", "code": 3}
    binds, _ = allocated(server, predicateVerb="predicate", managedResources=["x/gpu"])
    assert binds == {"p": "n1"}
    assert server.asked == []


@pytest.mark.parametrize("answer", [b"[]", b"{", b"x" * (LARGEST_ANSWER + 1)], ids=["a list", "no JSON", "too large"])
def test_an_answer_that_makes_no_sense_is_none(server, answer):
    server.answers["predicate"] = answer
    assert allocated(server, predicateVerb="predicate")[0] == {}


def test_a_closed_job_is_asked_about(server):
    server.answers["ready"] = lambda body: {"status": body["job"]["Name"] != "j"}
    assert allocated(server, jobReadyVerb="ready")[0] == {}
