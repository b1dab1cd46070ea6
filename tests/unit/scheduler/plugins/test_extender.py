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
from pyroclast_scheduler.session.waiting_causes import cause_of
from pyroclast_scheduler.shell.session_inputs import LARGEST_ANSWER, HttpExtender
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import evicted, placed


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


NODES = {"nodes": [["n1", 4, "8Gi"], ["n2", 4, "8Gi"]], "queues": [["q", {}]]}
ONE_POD = {**NODES, "podgroups": [["j", "q", 1]], "pods": [["p", "j", "-", 1, "1G"]]}


def decided(server: Server, tables: dict[str, Any], action: str, **arguments: Any) -> tuple[dict[str, str], list[str], Session]:
    """What is bound, and who is evicted."""
    cache, commits = Cache(), []
    feed(cache, tables)
    given = {"extender.urlPrefix": server.url, **{f"extender.{key}": value for key, value in arguments.items()}}
    tiers = (*(PluginEntry(name) for name in ("priority", "gang", "predicates")), PluginEntry("extender", arguments=given))
    settings = Configuration((action,), (tiers,))
    ports = Ports(objects.NOW, commits.append, extender=HttpExtender())
    session = Session(cache.snapshot(), settings, registry.plugins(), ports, uid="session")
    registry.actions()[action](session, Arguments())
    session.close_plugins()
    binds = {cache.tasks[uid].name: node for uid, node in placed(commits).items()}
    return binds, evicted(commits), session


def allocated(server: Server, **arguments: Any) -> tuple[dict[str, str], Session]:
    binds, _, session = decided(server, ONE_POD, "allocate", **arguments)
    return binds, session


def test_a_node_refused_by_the_extender_predicate_is_not_used(server):
    server.answers["predicate"] = lambda body: {"status": "not here", "code": 2} if body["node"]["Name"] == "n1" else {}
    assert allocated(server, predicateVerb="predicate")[0] == {"p": "n2"}
    assert server.asked[0][1]["task"]["Name"] == "p"


def test_preempt_calls_the_extender_predicate_again_with_the_victim_as_releasing(server):
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
    assert decided(server, tables, "preempt", predicateVerb="predicate")[1] == ["noisy"]


def test_the_node_with_the_highest_extender_score_is_chosen(server):
    server.answers["prioritize"] = lambda body: {"nodeScore": {"n1": 1, "n2": 50}, "errorMessage": ""}
    assert allocated(server, prioritizeVerb="prioritize")[0] == {"p": "n2"}


@pytest.mark.parametrize("verb", ["predicateVerb", "allocateFuncVerb"])
@pytest.mark.parametrize(("ignorable", "binds"), [(True, {"p": "n1"}), (False, {})])
def test_a_failed_extender_call_prevents_placement_unless_the_extender_is_ignorable(server, verb, ignorable, binds):
    got, session = allocated(server, ignorable=ignorable, **{verb: "gone"})
    assert got == binds
    assert any("404" in warning for warning in session.report.warnings)


def test_the_extender_is_called_at_session_open_allocation_and_session_close(server):
    for verb in ("open", "close", "allocate"):
        server.answers[verb] = lambda body: {}
    allocated(server, onSessionOpenVerb="open", onSessionCloseVerb="close", allocateFuncVerb="allocate")
    assert [verb for verb, _ in server.asked] == ["open", "allocate", "close"]


def test_the_extender_is_not_called_for_pods_without_its_managed_resources(server):
    server.answers["predicate"] = lambda body: {"status": "never", "code": 3}
    binds, _ = allocated(server, predicateVerb="predicate", managedResources=["x/gpu"])
    assert binds == {"p": "n1"}
    assert server.asked == []


@pytest.mark.parametrize("answer", [b"[]", b"{", b"x" * (LARGEST_ANSWER + 1)], ids=["a list", "no JSON", "too large"])
def test_a_malformed_or_oversized_predicate_response_prevents_placement(server, answer):
    server.answers["predicate"] = answer
    assert allocated(server, predicateVerb="predicate")[0] == {}


def test_a_job_that_the_extender_reports_as_not_ready_is_not_bound(server):
    server.answers["ready"] = lambda body: {"status": body["job"]["Name"] != "j"}
    assert allocated(server, jobReadyVerb="ready")[0] == {}


@pytest.mark.parametrize(
    ("answers", "evicted"),
    [
        ([True], ["large"]),
        ([False, True, True], ["small"]),
        ([False, True, False, True], ["large", "small"]),
        ([False, True, False, False], []),
        ([False], []),
    ],
)
def test_gangpreempt_evicts_for_a_repeated_trial_only_if_the_extender_still_allows_it(server, answers, evicted):
    """Both victims are tried after the sufficient one was refused, and again after the other one alone was not enough."""
    left = iter(answers)

    def says(body):
        is_allowed = body["task"]["Name"] != "high" or next(left, False)
        return {} if is_allowed else {"errorMessage": "not any more"}

    server.answers["allocate"] = says
    low = {"phase": "Running", "class": 1}
    tables = {
        "nodes": [["n1", 2, "8Gi"], ["n2", 3, "8Gi"]],
        "queues": [["q", {}]],
        "podgroups": [["a", "q", 0, low], ["b", "q", 0, low], ["j", "q", 1, {"class": 9}]],
        "pods": [["small", "a", "n1", 2, "1Gi"], ["large", "b", "n2", 3, "1Gi"], ["high", "j", "-", 2, "1Gi"]],
    }
    assert decided(server, tables, "gangpreempt", allocateFuncVerb="allocate")[1] == evicted


PAIR = {**NODES, "pods": [["p0", "j", "-", 1, "1G"], ["p1", "j", "-", 1, "1G"]]}


def objects_to(*pods: str) -> Callable[[dict[str, Any]], Any]:
    return lambda body: {"errorMessage": "no licence is left"} if body["task"]["Name"] in pods else {}


@pytest.mark.parametrize("action", ["allocate", "backfill"])
@pytest.mark.parametrize(("minimum", "bound"), [(1, {"p1"}), (2, set())])
def test_an_allocation_rejected_by_the_extender_is_undone_and_the_reason_reported(server, action, minimum, bound):
    server.answers |= {"allocate": objects_to("p0"), "deallocate": lambda body: {}}
    amounts = [1, "1G"] if action == "allocate" else [0, 0]
    pods = [[name, "j", "-", *amounts] for name in ("p0", "p1")]
    # of a gang in which nothing is asked for the minimum does not count: backfill binds what it can place
    tables = {**NODES, "podgroups": [["j", "q", minimum]], "pods": pods}
    binds, _, session = decided(server, tables, action, allocateFuncVerb="allocate", deallocateFuncVerb="deallocate")
    assert binds.keys() == (bound if action == "allocate" else {"p1"})
    told = [(verb, body["task"]["Name"]) for verb, body in server.asked]
    assert told[:2] == [("allocate", "p0"), ("deallocate", "p0")]
    assert (("deallocate", "p1") in told) == (not binds)
    assert "no licence is left" in str(cause_of(session, session.jobs["t/j"]))


def test_an_ignorable_extender_can_still_reject_an_allocation(server):
    server.answers["allocate"] = objects_to("p")
    assert allocated(server, allocateFuncVerb="allocate", ignorable=True)[0] == {}


def test_an_extender_error_on_deallocate_is_ignored(server):
    server.answers |= {"allocate": lambda body: {}, "deallocate": lambda body: {"errorMessage": "stay"}}
    tables = {**PAIR, "podgroups": [["j", "q", 2]], "nodes": [["n1", 1, "8Gi"]]}
    assert decided(server, tables, "allocate", allocateFuncVerb="allocate", deallocateFuncVerb="deallocate")[0] == {}
    assert [verb for verb, _ in server.asked] == ["allocate", "deallocate"]


@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt"])
@pytest.mark.parametrize("objects_to_it", [False, True])
def test_no_victim_is_evicted_for_an_allocation_that_the_extender_rejects(server, action, objects_to_it):
    server.answers["allocate"] = objects_to(*["high"] * objects_to_it)
    tables = {
        "nodes": [["n", 1, "8Gi"]],
        "queues": [["q", {}], ["r", {}]],
        "podgroups": [
            ["low", "r" if action == "reclaim" else "q", 0, {"phase": "Running", "class": 1}],
            ["j", "q", 1, {"class": 9}],
        ],
        "pods": [["victim", "low", "n", 1, "1Gi"], ["high", "j", "-", 1, "1Gi"]],
    }
    evicted = decided(server, tables, action, allocateFuncVerb="allocate")[1]
    assert evicted == ([] if objects_to_it else ["victim"])
