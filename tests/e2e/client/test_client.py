"""The Python client against a control plane with simulated nodes: Jobs of any kind, as handles."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pyroclast.client as pc
from pyroclast_client import errors
from tests.e2e.support.cluster import Cluster, wait_until

pytestmark = pytest.mark.timeout(600)  # they start many processes


def job(seconds: float = 0.2, replicas: int = 1, *, cpu: str = "100m", code: int = 0, **spec: Any) -> dict[str, Any]:
    command = ["sh", "-c", f"echo hello; sleep {seconds}; exit {code}"]
    container = {"name": "main", "image": "busybox", "command": command, "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    return {"spec": {"tasks": [{"name": "main", "replicas": replicas, "template": template}], **spec}}


@pytest.fixture
def client(cluster: Cluster, namespace: str) -> Iterator[pc.Client]:
    with pc.Client(namespace=namespace, kubeconfig=str(cluster.kubeconfig)) as client:
        yield client


def test_client_submits_waits_for_explains_and_deletes_a_job_and_reads_its_logs(client: pc.Client) -> None:
    handle = client.submit(job(replicas=2)).wait(timeout=150)
    assert (handle.phase, handle.status.succeeded) == ("Completed", 2)
    assert sorted(handle.logs().splitlines()) == ["[main-0] hello", "[main-1] hello"]
    assert handle.logs(index=1) == "hello"
    assert str(handle.explain()).endswith("2 pods succeeded, 0 failed")
    assert [each.name for each in client.jobs()] == [handle.name]
    handle.delete()
    wait_until(lambda: not client.jobs(), "the Job to go")


def test_simulated_nodes_are_named_before_a_function_has_no_result(client: pc.Client) -> None:
    call = pc.task(image="py", cpu="10m")(abs).call(-1)
    with pytest.warns(errors.PyroclastWarning, match="only pretend to run commands"):
        client.submit(call, dry_run=True)
    client.submit(call, dry_run=True)  # once


def test_fits_predicts_placement_without_creating_a_job(client: pc.Client) -> None:
    assert client.fits(job())
    found = client.fits(job(cpu="9000", queue="default"))
    assert (bool(found), found.code, found.never, found.queue) == (False, "AboveCluster", True, "default")
    assert "would wait in queue default: AboveCluster, never" in str(found)
    found = client.fits(job(schedulerName="nobody"))
    assert found.code == "NoScheduler"
    assert client.jobs() == []
    with pytest.raises(errors.Rejected, match="minAvailable"):
        client.fits(job(minAvailable=2))


def test_jobs_with_mine_lists_only_jobs_of_the_current_user(cluster: Cluster, client: pc.Client, namespace: str) -> None:
    handle = client.submit(job(600))
    cluster.kubectl(
        "create",
        "-n",
        namespace,
        "-f",
        "-",
        "--as=somebody",
        "--as-group=system:masters",
        stdin=json.dumps({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "theirs"}, **job(600)}),
    )
    assert {each.name for each in client.jobs()} == {handle.name, "theirs"}
    assert [each.name for each in client.jobs(mine=True)] == [handle.name]


def test_wait_for_a_failed_job_raises_with_index_exit_code_and_last_log_lines(client: pc.Client) -> None:
    handle = client.submit(job(code=3), name="bad")
    with pytest.raises(errors.JobFailed, match="pod bad-main-0 failed with exit code 3") as caught:
        handle.wait(timeout=150)
    error = caught.value
    assert (error.phase, error.index, error.exit_code, error.log_tail) == ("Failed", 0, 3, "hello")
    assert handle.wait(check=False).phase == "Failed"


def test_handle_suspends_resumes_scales_and_cancels_a_job(cluster: Cluster, client: pc.Client) -> None:
    handle = client.submit(job(600)).wait(150, "running")
    handle.suspend()
    handle.wait(150, check=False)
    assert (handle.phase, handle.explain().code) == ("Aborted", "Suspended")
    handle.resume()
    wait_until(lambda: handle.phase == "Running", "the Job to go on")
    handle.scale(3)
    wait_until(lambda: handle.status.running == 3, "three pods to run")
    assert handle.object()["spec"]["minAvailable"] == 3
    handle.cancel()
    with pytest.raises(errors.JobFailed, match="Terminated"):
        handle.wait(150)


def test_events_yield_each_phase_once_and_end_when_the_job_completes(client: pc.Client) -> None:
    told = list(client.submit(job(0.5, 2)).events())
    phases = [event.reason for event in told if event.kind == "phase"]
    assert phases[-1] == "Completed"
    assert len(phases) == len(set(phases))
    pods = [(event.about, event.reason) for event in told if event.kind == "pod"]
    assert len(pods) == len(set(pods))
    assert {reason for _, reason in pods} >= {"Running", "Succeeded"}


def test_logs_are_followed_to_the_end(client: pc.Client) -> None:
    handle = client.submit(job(0.5, 2))
    lines = list(handle.logs(follow=True))
    assert sorted((line.task, line.index, line.text) for line in lines) == [("main", 0, "hello"), ("main", 1, "hello")]
    assert sorted(map(str, handle.follow_logs(index=1))) == ["[main-1] hello"]
    with pytest.raises(errors.Usage, match="leave out `tail`"):
        handle.logs(follow=True, tail=1)  # type: ignore[call-overload]


def test_repeated_submission_returns_the_same_job_and_a_different_spec_is_refused(client: pc.Client) -> None:
    first, second = (client.submit(job(60), name="once") for _ in range(2))
    assert first.uid == second.uid
    with pytest.raises(errors.Rejected, match="is there already, and differs"):
        client.submit(job(61), name="once")


def test_unpickled_handle_raises_job_replaced_when_a_new_job_has_the_same_name(client: pc.Client) -> None:
    handle = client.submit(job(), name="twice").wait(150)
    again = pickle.loads(pickle.dumps(handle))
    assert (again.uid, again.phase) == (handle.uid, "Completed")
    handle.delete()
    wait_until(lambda: not client.jobs(), "the Job to go")
    client.submit(job(1), name="twice")
    with pytest.raises(errors.JobReplaced, match="another one has its name now"):
        again.wait(150)
    assert client.job("twice").wait(150).uid != handle.uid


def test_wait_warns_or_raises_never_fits_when_the_job_can_never_be_placed(client: pc.Client) -> None:
    handle = client.submit(job(cpu="10000"))
    with pytest.warns(errors.PyroclastWarning) as told, pytest.raises(errors.TimedOut):
        handle.wait(15)
    (warning,) = told
    explanation = handle.explain()
    assert str(warning.message) == explanation.summary
    assert explanation.sentence.removeprefix("never: ") in str(explanation)
    assert f"{handle.name} waits in queue default: {explanation.code}, never: " in explanation.summary
    with pytest.raises(errors.NeverFits, match="cpu") as caught:
        handle.wait(60, fail_if_never=True)
    assert caught.value.explanation == handle.explain()
    assert handle.explain().never


def test_wait_until_placed_returns_before_the_job_is_finished(client: pc.Client) -> None:
    handle = client.submit(job(600))
    assert handle.wait(150, "placed").status.is_finished is False
    handle.cancel()


def test_submit_raises_rejected_for_a_missing_queue_and_a_dry_run_creates_no_job(client: pc.Client) -> None:
    with pytest.raises(errors.Rejected, match='"nowhere" not found'):
        client.submit(job(queue="nowhere"))
    assert client.submit(job(), dry_run=True).name
    assert client.jobs() == []
    with pytest.raises(errors.NotFound, match="Check its name"):
        client.job("missing")


def test_forbidden_error_names_the_missing_rbac_rule(cluster: Cluster, namespace: str, tmp_path: Any) -> None:
    import yaml

    cluster.kubectl("create", "serviceaccount", "ann", "-n", namespace)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "ann", "-n", namespace).strip()
    document["users"] = [{"name": document["contexts"][0]["context"]["user"], "user": {"token": token}}]
    (tmp_path / "kubeconfig").write_text(json.dumps(document))
    with pc.Client(namespace=namespace, kubeconfig=str(tmp_path / "kubeconfig")) as client:
        with pytest.raises(errors.Forbidden, match="pyroclast-user") as caught:
            client.submit(job())
        assert (caught.value.verb, caught.value.resource) == ("create", "jobs")
        assert caught.value.rule == '{apiGroups: ["batch.volcano.sh"], resources: ["jobs"], verbs: ["create"]}'
        with pytest.raises(errors.Forbidden) as caught:
            client.jobs()
        assert caught.value.verb == "list"


def test_client_raises_no_cluster_when_no_kubeconfig_exists(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(errors.NoCluster, match="KUBECONFIG is not set"):
        pc.Client().jobs()


def test_interrupt_of_wait_keeps_the_job_running_and_prints_that_it_goes_on(
    client: pc.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = client.submit(job(600))
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        handle.wait()
    assert "goes on" in capsys.readouterr().err
    assert not handle.status.is_finished


def test_with_block_terminates_the_job_when_cancel_on_exit_is_set(client: pc.Client) -> None:
    with client.submit(job(600), cancel_on_exit=True) as handle:
        handle.wait(150, "running")
    handle.wait(150, check=False)
    assert handle.phase == "Terminated"


def test_many_handles_share_one_watch(cluster: Cluster, namespace: str) -> None:
    async def ten() -> list[str]:
        async with pc.AsyncClient(namespace=namespace, kubeconfig=str(cluster.kubeconfig)) as client:
            handles = await asyncio.gather(*(client.submit(job()) for _ in range(10)))
            await asyncio.gather(*(handle.wait(150) for handle in handles))
            return [(await handle.status()).phase for handle in handles]

    assert asyncio.run(ten()) == ["Completed"] * 10
    path = f"/namespaces/{namespace}/jobs"
    begun = [each for each in cluster.audit.events("ResponseStarted") if each["verb"] == "watch" and path in each["requestURI"]]
    assert [each["userAgent"] for each in begun].count("pyroclast-client") == 1


def test_sync_calls_work_under_a_running_loop(client: pc.Client) -> None:
    async def cell() -> str:
        return client.submit(job()).wait(150).phase

    assert asyncio.run(cell()) == "Completed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_handle_works_in_a_forked_child_and_in_its_parent(client: pc.Client) -> None:
    handle = client.submit(job()).wait(150)
    child = os.fork()
    if child == 0:
        os._exit(0 if handle.phase == "Completed" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert handle.phase == "Completed"


def test_job_events_are_neither_lost_nor_repeated_over_an_api_server_restart(cluster: Cluster, client: pc.Client) -> None:
    handles = [client.submit(job(6, 2)) for _ in range(10)]
    told: list[list[str]] = [[] for _ in handles]

    def read(number: int) -> None:
        for event in handles[number].events():
            if event.kind == "phase":
                told[number].append(event.reason)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(10)]
    for reader in readers:
        reader.start()
    handles[0].wait(150, "running")
    wait_until(lambda: all(told), "each reader to follow its Job")  # a first read fails when the API server is away
    cluster.outage(2)
    for reader in readers:
        reader.join(200)
    for phases in told:
        assert phases[-1] == "Completed", told
        assert len(phases) == len(set(phases)), told


def test_submit_rejects_all_invalid_fields_before_any_request(tmp_path: Any) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}  # nobody listens there
    context = {"name": "x", "context": {"cluster": "c", "user": ""}}
    kubeconfig.write_text(json.dumps({"current-context": "x", "clusters": [cluster], "contexts": [context]}))
    with pc.Client(kubeconfig=str(kubeconfig)) as client:
        broken = job(minAvailable="two", maxRetry=-1, queue="No Queue")
        with pytest.raises(errors.Rejected) as caught:
            client.submit({**broken, "spec": {**broken["spec"], "unknown": 1}})
        fields = [cause.field for cause in caught.value.causes]
        assert sorted(fields) == ["spec.maxRetry", "spec.minAvailable", "spec.queue", "spec.unknown"]
        with pytest.raises(errors.NoCluster, match="did not answer"):
            client.submit(job())
