"""Our API server answers as a real one does: every case of the table, and the commands of kubectl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conformance import compare, matrix
from tests.e2e.conformance.cases import load_cases
from tests.e2e.conformance.commands import compared_commands, load_commands, printed
from tests.e2e.conformance.conftest import Pair
from tests.e2e.conformance.run import compared, transcripts
from tests.e2e.support.cluster import kubectl_is_there
from tests.unit.running import running_server

MOST_KNOWN = 15  # differences that may stay


def judge(found: dict[str, list[compare.Difference]]) -> list[str]:
    """What is wrong: differences that are not known, and known ones that are gone."""
    known = {(entry.case, entry.path) for entry in compare.load_known()}
    seen = {(case, one.path) for case, differences in found.items() for one in differences}
    wrong = [f"{case}: {one}" for case, differences in found.items() for one in differences if (case, one.path) not in known]
    return wrong + [f"{case}: {path} does not differ any more" for case, path in sorted(known - seen) if case in found]


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_embedded_api_server_differs_from_kube_apiserver_only_in_known_cases(pair: Pair, tmp_path: Path) -> None:
    found = {}
    async for case, real, ours in compared(pair.real, pair.ours, load_cases(), tmp_path):
        assert not any("failed" in result for result in real), (case.id, real)
        found[case.id] = list(compare.differences(real, ours))
    await pair.forget()
    async for case, real, ours in compared(pair.real, pair.ours, load_cases(aged=True), tmp_path):
        found[case.id] = list(compare.differences(real, ours))
    wrong = judge(found)
    assert not wrong, "\n".join(wrong)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_kubectl_output_on_the_embedded_server_differs_only_in_known_cases(pair: Pair, tmp_path: Path) -> None:
    if not kubectl_is_there():
        pytest.skip("kubectl is not on this machine")
    async for _ in compared(pair.real, pair.ours, [], tmp_path):
        pass  # this makes the shared kinds
    found = {}
    async for commands, real, ours in compared_commands(pair.real, pair.ours, load_commands()):
        found[commands.id] = list(compare.differences(real, ours))
    wrong = judge(found)
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(600)
async def test_embedded_api_server_answers_as_recorded_from_kube_apiserver(tmp_path: Path) -> None:
    """Also where no real control plane is: `python -m tests.e2e.conformance --record` keeps what one answers."""
    recorded, found = compare.kept(), {}
    async with running_server(tmp_path / "ours") as server:
        async for case, (ours,) in transcripts({"ours": server.kubeconfig}, load_cases(), tmp_path):
            found[case.id] = list(compare.differences(recorded[case.id], json.loads(json.dumps(ours))))
    wrong = judge(found)
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(600)
async def test_kubectl_output_on_the_embedded_server_is_as_recorded_from_kube_apiserver(tmp_path: Path) -> None:
    if not kubectl_is_there():
        pytest.skip("kubectl is not on this machine")
    recorded, found = compare.kept(), {}
    async with running_server(tmp_path / "ours") as server:
        async for _ in transcripts({"ours": server.kubeconfig}, [], tmp_path):
            pass  # this makes the shared kinds
        async for commands, (ours,) in printed([server.kubeconfig], load_commands()):
            found[commands.id] = list(compare.differences(recorded[commands.id], json.loads(json.dumps(ours))))
    wrong = judge(found)
    assert not wrong, "\n".join(wrong)


def test_every_conformance_statement_has_a_test_case() -> None:
    assert matrix.uncovered() == []
    assert matrix.unknown() == []


def test_known_differences_are_few_and_all_have_a_reason() -> None:
    known = compare.load_known()
    assert len(known) <= MOST_KNOWN
    assert not any(entry.path.endswith((".status", ".reason")) for entry in known)
    assert all(entry.why for entry in known)
