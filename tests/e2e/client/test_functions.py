"""Functions, sweeps and executors of the Python client, run by real processes of a local control plane."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

import pyroclast.client as pc
from pyroclast.kube.basics.errors import NotFound
from pyroclast_client import errors
from pyroclast_client.loops import iterated
from pyroclast_client.runner import sealing

pytestmark = pytest.mark.timeout(600)  # they start many processes

FRAME = sealing.FRAME.encode()


@pytest.fixture(scope="module")
def local() -> Iterator[pc.Client]:
    with pc.local(nodes=2) as client:
        yield client


def delete_pod(client: pc.Client, name: str) -> None:
    from pyroclast.api.types import PODS, Key
    from pyroclast_client.loops import run

    async def delete() -> None:
        await (await client.asynchronous.session()).kube.delete(PODS, Key("default", name))

    run(delete())


@pc.task(gang=4)
def hello() -> int:
    """The rank."""
    print("I am", pc.rank(), "of", pc.world())
    return pc.rank()


def test_a_gang_returns_the_value_of_each_rank(local: pc.Client) -> None:
    job = hello.run()
    assert job.results(200) == [0, 1, 2, 3]
    assert job.result() == 0
    assert sorted(job.logs().splitlines()) == [f"[main-{rank}] I am {rank} of 4" for rank in range(4)]
    assert hello() == 0  # a call is one here


@pc.task
def divided(a: int, b: int) -> float:
    return a / b


def test_exception_of_a_remote_function_is_raised_with_its_cause_and_remote_traceback(local: pc.Client) -> None:
    assert divided.run(6, 3).result(200) == 2
    with pytest.raises(errors.TaskError, match="ZeroDivisionError: division by zero") as caught:
        divided.run(1, 0).result(200)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "return a / b" in caught.value.remote_traceback or "in divided" in caught.value.remote_traceback
    assert "runner" not in caught.value.remote_traceback


@pc.task(cpu="50m")
def picky(number: int) -> int:
    if number % 34 == 0:
        raise ValueError(f"not {number}")
    return number * number


def test_sweep_returns_values_and_errors_and_retry_reruns_only_failed_calls(local: pc.Client, tmp_path: Path) -> None:
    calls, mended = tmp_path / "calls", tmp_path / "mended"

    @pc.task(cpu="50m")
    def choosy(number: int) -> int:
        with open(calls, "a") as file:
            file.write(f"{number}\n")
        if number % 34 == 0 and not mended.exists():
            raise ValueError(f"not {number}")
        return number * number

    sweep = choosy.sweep(number=range(100))
    results = sweep.results(280)
    assert [job.object()["spec"]["tasks"][0]["replicas"] for job in sweep.jobs] == [100]
    told = {number: result for number, result in enumerate(results) if isinstance(result, errors.TaskError)}
    assert sweep.failed == sorted(told) == [0, 34, 68], [each for each in results if isinstance(each, errors.PyroclastError)]
    assert [result for result in results if isinstance(result, int)] == [n**2 for n in range(100) if n not in told]
    for number, error in told.items():
        assert (error.index, str(error.__cause__)) == (number, f"not {number}")
        assert "in choosy" in error.remote_traceback
        assert f"ValueError: not {number}" in error.remote_traceback
    assert sorted(map(int, calls.read_text().split())) == list(range(100))
    mended.touch()
    sweep.retry()
    assert [job.object()["spec"]["tasks"][0]["replicas"] for job in sweep.jobs] == [100, 3]
    assert sweep.results(200) == [number**2 for number in range(100)]
    assert sorted(map(int, calls.read_text().split()[100:])) == [0, 34, 68]
    assert sweep.failed == []


def test_map_yields_values_in_order_or_unordered_and_raises_task_errors(local: pc.Client) -> None:
    assert list(picky.map([3, 2, 1])) == [9, 4, 1]
    assert sorted(picky.map([3, 2, 1], in_order=False)) == [1, 4, 9]
    with pytest.raises(errors.TaskError):
        list(picky.map([1, 34]))


@pc.task
def text_of(size: int) -> str:
    print("before the result")
    return "x" * size


@pytest.fixture
def without_store(local: pc.Client) -> Iterator[pc.Client]:
    client = pc.Client(namespace="default", image="local", kubeconfig=local.kubeconfig)
    client.asynchronous.python = sys.executable
    yield client
    client.close()


@pc.task(serializer="json")
def json_of(size: int) -> str:
    """Text that is `size` bytes of JSON."""
    print("before the result")
    return "x" * (size - 2)


def lines_of_results(local: pc.Client) -> list[Path]:
    """The logs of pods in which a result is, the latest last."""
    found = [path for path in Path(local.kubeconfig).parent.rglob("log") if path.is_file() and FRAME in path.read_bytes()]
    return sorted(found, key=lambda path: path.stat().st_mtime)


@pytest.mark.parametrize(
    ("size", "is_in_log"), [(2 << 10, False), ((2 << 10) + 1, True), (1 << 20, True)], ids=["2 KiB", "2 KiB + 1", "1 MiB"]
)
def test_result_up_to_1_mib_is_returned_without_a_store(
    local: pc.Client, without_store: pc.Client, size: int, is_in_log: bool
) -> None:
    before = len(lines_of_results(local))
    job = without_store.submit(json_of.call(size))
    assert len(job.result(200)) == size - 2
    assert job.logs() == "before the result"
    assert len(lines_of_results(local)) - before == is_in_log


@pc.task(serializer="json")
def failing_json() -> None:
    raise LookupError("no such key")


def test_exception_of_a_task_with_the_json_serializer_has_its_text_and_no_unpickled_cause(without_store: pc.Client) -> None:
    with pytest.raises(errors.TaskError, match="LookupError: no such key") as raised:
        without_store.submit(failing_json.call()).result(200)
    assert raised.value.__cause__ is None
    assert "LookupError" in raised.value.remote_traceback


def test_results_of_any_size_are_returned_with_a_store(local: pc.Client) -> None:
    for size in (0, 2048, 5000, 1 << 20, (1 << 20) + 1):
        job = text_of.run(size)
        assert len(job.result(200)) == size
        assert job.logs() == "before the result"


def test_result_can_be_read_in_another_process_by_job_name(local: pc.Client) -> None:
    job = divided.run(9, 3)
    job.wait(200)
    script = f"""
import pyroclast.client as pc
with pc.Client(namespace="default", kubeconfig={local.kubeconfig!r}) as c:
    print(pc.job({job.name!r}).result())
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "3.0\n"


def test_result_survives_ttl_deletion_of_its_job_only_in_a_handle_that_waited(local: pc.Client) -> None:
    job = divided.using(ttl=1).run(8, 2)
    other = pickle.loads(pickle.dumps(job))
    job.wait(200)
    deadline = time.monotonic() + 60
    while job.name in [each.name for each in local.jobs()]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert job.result() == 4
    with pytest.raises(errors.ResultGone, match=rf"Job default/{job.name} was deleted.*give a longer `ttl`"):
        other.result()
    with pytest.raises(errors.NotFound, match="Submit it again"):
        other.wait()


def test_forged_result_message_raises_and_is_not_unpickled(local: pc.Client, tmp_path: Any) -> None:
    target = tmp_path / "written"

    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {target}",)

    def forge(kind: str) -> None:
        import base64
        import hashlib
        import pickle

        data = pickle.dumps(Evil())
        message = {"v": 1, "kind": "value", "encoding": "pickle", "place": "inline", "index": 0}
        message |= {"attempt": os.environ["PYROCLAST_POD_UID"], "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        message |= {"mac": "0" * 64, "data": base64.b64encode(data).decode()}
        with open(os.environ["PYROCLAST_TERMINATION_LOG"], "w") as file:
            json.dump(message, file)
        os._exit(0)

    with pytest.raises(errors.ForgedResult, match="seal"):
        pc.task(forge).run("message").result(200)
    assert not target.exists()


HERE = "{}.{}".format(*sys.version_info)


def another_python() -> tuple[str, str]:
    """The version and the path of an interpreter of another minor version on this machine, which pyenv may have."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in {"3.10", "3.12", "3.13", "3.14"} - {HERE}:
        for path in (shutil.which(f"python{version}"), *root.glob(f"versions/{version}.*/bin/python{version}")):
            if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                return version, str(path)
    pytest.skip("there is no Python of another minor version on this machine")


def test_python_version_mismatch_raises_before_arguments_are_unpickled(local: pc.Client, tmp_path: Path) -> None:
    target = tmp_path / "written"

    class Mark:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {target}",)

    def take(mark: object) -> str:
        return sys.version

    version, python = another_python()
    told = f"the image has Python {version} and this is Python {HERE}; use an image with Python {HERE}"
    with pytest.raises(errors.VersionMismatch, match=re.escape(told)):
        pc.task(take).using(python=python).run(Mark()).result(200)
    assert not target.exists()
    pc.task(take).run(Mark()).result(200)  # by this Python the mark is made
    assert target.exists()


def test_secrets_are_in_no_manifest_log_or_representation(local: pc.Client) -> None:
    from pyroclast.api.types import EVENTS, PODS, SECRETS, Key
    from pyroclast_client.loops import run

    hush = token_hex(8)  # this file travels with the function, so that it must not be there

    async def make() -> None:
        kube = (await local.asynchronous.session()).kube
        await kube.create(SECRETS, {"metadata": {"name": "token", "namespace": "default"}, "stringData": {"value": hush}})

    run(make())

    @pc.task(secrets={"TOKEN": "token/value"})
    def length() -> int:
        return len(os.environ["TOKEN"])

    job = length.run()
    assert job.result(200) == len(hush)
    told = "".join(map(str, job.events()))
    assert "Completed" in told
    assert hush not in json.dumps(job.object()) + job.logs() + repr(job) + job._repr_html_() + told

    async def everything() -> list[dict[str, Any]]:
        kube = (await local.asynchronous.session()).kube
        payload = await kube.get(SECRETS, Key("default", f"{job.name}-code"))
        found = [payload]
        for kind in (PODS, EVENTS):
            items, _ = await kube.list(kind, "default")
            found += [item for item in items if job.name in json.dumps(item)]
        return found

    payload, *others = run(everything())
    assert any(item.get("involvedObject") for item in others)
    assert hush not in json.dumps([payload, others])
    for part in payload["data"].values():
        data = base64.b64decode(part)
        unpacked = zlib.decompressobj()
        for text in (data, *((unpacked.decompress(data),) if data[:1] == b"x" else ())):
            assert hush.encode() not in text


def test_checkpointed_task_resumes_after_its_pod_is_deleted(local: pc.Client) -> None:
    class Count:
        def __init__(self) -> None:
            self.done = 0

        def __call__(self, until: int) -> tuple[int, int]:
            import time

            self.started = self.done
            while self.done < until:
                self.done += 1
                print("at", self.done)
                time.sleep(0.1)
            return self.started, self.done

        def checkpoint(self, until: int) -> Any:
            return self

    sweep = pc.task(checkpoint="method")(Count()).sweep(until=[30, 31])
    (job,) = sweep.jobs
    for line in job.follow_logs(index=0):
        if line.text == "at 5":
            break

    delete_pod(local, f"{job.name}-main-0")
    (started, done), untouched = sweep.results(200)
    assert started >= 5
    assert (done, untouched) == (30, (0, 31))
    assert job.status.restarts == 1


def test_unpicklable_function_raises_usage_error_on_submission(local: pc.Client) -> None:
    import threading

    lock = threading.Lock()

    @pc.task
    def locked() -> None:
        lock.acquire()

    with pytest.raises(errors.Usage, match="function locked cannot be pickled"):
        locked.run()


PLANE = """
import os, sys, time
import pyroclast_client as pc

@pc.task
def ready() -> int:
    return 1

@pc.task
def long() -> None:
    print(os.getpid())
    time.sleep(600)

before = dict(os.environ)
try:
    began = time.monotonic()
    with pc.local(nodes=1) as c:
        took = time.monotonic() - began
        assert ready.run().result() == 1
        print(took, c.kubeconfig, next(long.run().logs(follow=True)).text, flush=True)
        {end}
except KeyError:
    pass
assert dict(os.environ) == before
print("left")
"""


@pytest.mark.parametrize(
    ("end", "is_killed"),
    [("pass", False), ("raise KeyError", False), ("time.sleep(600)", True)],
    ids=["exit", "exception", "kill"],
)
def test_local_control_plane_leaves_no_files_or_processes_after_exit_exception_or_kill(end: str, is_killed: bool) -> None:
    script = PLANE.format(end=end)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        took, kubeconfig, pod = process.stdout.readline().split()
        folder = os.path.dirname(kubeconfig)
        if is_killed:
            assert os.path.isdir(folder)
            assert os.path.isdir(f"/proc/{pod}")
            process.kill()
        else:
            assert process.stdout.read() == "left\n"
    began = time.monotonic()
    while os.path.exists(folder) or os.path.exists(f"/proc/{pod}") or _mention(folder):
        assert time.monotonic() < began + 60, (os.path.exists(folder), _mention(folder))
        time.sleep(0.2)
    print(f"ready after {float(took):.1f} s, gone {time.monotonic() - began:.1f} s after the end")


def _mention(folder: str) -> list[str]:
    """The command lines of processes that mention a folder."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if folder in line:
                found.append(line)
    return found


def test_failed_gang_is_restarted_when_it_has_retries_and_raises_otherwise(local: pc.Client, tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    @pc.task(gang=2, retries=2)
    def flaky(limit: int) -> int:
        with open(marker, "a") as file:
            file.write("x")
        if pc.rank() == 1 and marker.stat().st_size < limit:
            raise OSError("not yet")
        return pc.rank()

    job = flaky.run(3)
    completed = list(iterated(job.handle.as_completed()))
    assert not [each for each in completed if each.error], completed
    assert sorted(each.value for each in completed) == [0, 1]  # not those of the first try
    assert job.results(200) == [0, 1]
    assert job.status.restarts >= 1
    with pytest.raises((errors.TaskError, errors.JobFailed), match=r"not yet|ended|gone"):
        flaky.using(retries=0).run(1000).result(200)


def test_gang_waits_until_all_pods_fit_and_explain_names_the_missing_resource(local: pc.Client) -> None:
    @pc.task(cpu=4)
    def blocked() -> None:
        time.sleep(600)

    blocker = blocked.run().wait(200, "running")  # of 16 CPUs on two nodes there is room for three pods of four
    job = hello.using(cpu=4).run()
    with pytest.raises(errors.TimedOut):
        job.wait(4, "running")
    explanation = job.explain()
    assert explanation.code in {"NodesFull", "ClusterFull"}, explanation
    assert "cpu" in str(explanation)
    assert job.status.running == 0
    assert local.job(job.name).status.succeeded == 0
    blocker.delete()
    assert job.results(200) == [0, 1, 2, 3]


def test_repeated_submission_completes_an_interrupted_submission(local: pc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyroclast.api.types import SECRETS, Key
    from pyroclast_client.compilation import compiled
    from pyroclast_client.loops import run
    from pyroclast_client.submission import create_job, make_secret

    call, client = divided.call(8, 2), local.asynchronous

    def made(name: str) -> Any:
        return compiled(call.function, [call.arguments], call.options, client.surroundings, name=name)

    async def secret_only() -> None:
        await make_secret((await client.session()).kube, made("died-1").secret)

    async def secret_and_job() -> None:
        kube, objects = (await client.session()).kube, made("died-2")
        await make_secret(kube, objects.secret)
        await create_job(kube, client.prepared(objects.job))

    async def owners(name: str) -> list[str]:
        found = await (await client.session()).kube.get(SECRETS, Key("default", f"{name}-code"))
        return [owner["uid"] for owner in found["metadata"]["ownerReferences"]]

    for name, step in (("died-1", secret_only), ("died-2", secret_and_job)):
        run(step())
        jobs = [local.submit(call, name=name) for _ in range(2)]
        assert jobs[0].uid == jobs[1].uid
        assert run(owners(name)) == [jobs[0].uid]
        assert jobs[1].result(200) == 4
    with pytest.raises(errors.Rejected, match="choose another name"):
        local.submit(divided.call(8, 3), name="died-1")

    async def refused(*_: Any) -> Any:
        raise errors.Rejected("the queue is closed", [])

    monkeypatch.setattr("pyroclast_client.asynchronous.create_job", refused)
    with pytest.raises(errors.Rejected, match="the queue is closed"):
        local.submit(call, name="died-2")
    assert run(owners("died-2")), "the Secret of the Job stays, as this call did not create it"


def test_orphaned_secret_of_a_dead_client_is_deleted_or_gets_its_job_as_owner(
    local: pc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyroclast.api.types import SECRETS, Key
    from pyroclast_client import orphans
    from pyroclast_client.compilation import compiled
    from pyroclast_client.loops import run
    from pyroclast_client.submission import create_job, make_secret

    call, client = divided.call(8, 2), local.asynchronous

    def made(name: str) -> Any:
        return compiled(call.function, [call.arguments], call.options, client.surroundings, name=name)

    async def die() -> None:
        kube = (await client.session()).kube
        await make_secret(kube, made("left-1").secret)
        await make_secret(kube, made("left-2").secret)
        await create_job(kube, made("left-2").job)

    async def removed() -> int:
        session = await client.session()
        return await orphans.remove_orphans(session.kube, "default", session.pending)

    async def owners(name: str) -> list[str]:
        secret = await (await client.session()).kube.get(SECRETS, Key("default", name))
        return [owner["name"] for owner in secret["metadata"].get("ownerReferences") or ()]

    run(die())
    assert run(removed()) == 0  # they are young: their client may be at work
    monkeypatch.setattr(orphans, "OLD_SECONDS", -5.0)
    assert run(removed()) == 1
    assert run(owners("left-2-code")) == ["left-2"]
    assert local.job("left-2").result(200) == 4
    with pytest.raises(NotFound):
        run(owners("left-1-code"))


def test_elastic_gang_starts_at_its_minimum_and_runs_all_pods(local: pc.Client) -> None:
    job = hello.using(gang=(2, 4), cpu=5).run()  # of 16 CPUs on two nodes there is room for two pods of five
    assert job.results(200) == [0, 1, 2, 3]
    waiting = hello.using(gang=(3, 4), cpu=5).run()
    with pytest.raises(errors.TimedOut):
        waiting.wait(4, "running")
    assert (waiting.status.running, waiting.explain().code) == (0, "TooFewNodes")
    waiting.delete()


def test_user_role_suffices_for_the_client_and_no_payload_secrets_remain(
    local: pc.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    from pyroclast.api.types import ROLE_BINDINGS, SECRETS, SERVICE_ACCOUNTS, Key
    from pyroclast_client import orphans
    from pyroclast_client.compilation import compiled
    from pyroclast_client.loops import run
    from pyroclast_client.submission import make_secret

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def die(client: pc.AsyncClient) -> None:
        call, session = divided.call(4, 2), await client.session()
        session.pending.note(Key("default", "ann-died-code"))
        made = compiled(call.function, [call.arguments], call.options, client.surroundings, name="ann-died")
        await make_secret(session.kube, made.secret)

    async def token() -> str:
        kube = (await local.asynchronous.session()).kube
        await kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "ann", "namespace": "default"}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pyroclast-user"}
        subject = {"kind": "ServiceAccount", "name": "ann", "namespace": "default"}
        await kube.create(
            ROLE_BINDINGS, {"metadata": {"name": "ann", "namespace": "default"}, "roleRef": role, "subjects": [subject]}
        )
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        issued = await kube.create(SERVICE_ACCOUNTS, body, namespace="default", name="ann", subresource="token")
        return str(issued["status"]["token"])

    async def secrets_of(job: str) -> list[str]:
        items, _ = await (await local.asynchronous.session()).kube.list(SECRETS, "default")
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith(job)]

    document = yaml.safe_load(Path(local.kubeconfig).read_text())
    document["users"] = [{"name": document["contexts"][0]["context"]["user"], "user": {"token": run(token())}}]
    (tmp_path / "kubeconfig").write_text(json.dumps(document))
    with pc.Client(namespace="default", image="local", kubeconfig=str(tmp_path / "kubeconfig")) as ann:
        ann.asynchronous.python = sys.executable
        name = divided.run(4, 2).wait(200).name
        job = pc.job(name)
        assert job.result() == 2
        assert list(picky.map([1, 2])) == [1, 4]
        assert str(job.explain())
        job.delete()
        with pytest.raises(errors.Rejected, match="nowhere"):
            ann.submit(divided.using(queue="nowhere").call(4, 2), name="ann-refused")
        run(die(ann.asynchronous))
        monkeypatch.setattr(orphans, "OLD_SECONDS", -5.0)
        with pc.Client(namespace="default", image="local", kubeconfig=str(tmp_path / "kubeconfig")) as next_time:
            next_time.asynchronous.python = sys.executable
            assert next_time.submit(divided.call(4, 2)).result(200) == 2
    assert not list((tmp_path / "state").glob("**/*-code"))
    deadline = time.monotonic() + 30
    while run(secrets_of(name)) or run(secrets_of("ann-died")) or run(secrets_of("ann-refused")):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_refused_resubmission_leaves_the_secret_of_the_running_job(local: pc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program runs again, and the Job is refused now: by a quota, a closed queue, or a webhook."""

    async def refused(*_: object, **__: object) -> None:
        raise errors.Rejected("the queue is closed")

    running = local.submit(divided.call(8, 2), name="kept")
    with monkeypatch.context() as patched:
        patched.setattr("pyroclast_client.asynchronous.create_job", refused)
        with pytest.raises(errors.Rejected, match="the queue is closed"):
            local.submit(divided.call(8, 2), name="kept")
        with pytest.raises(errors.Rejected, match="the queue is closed"):
            local.submit(divided.call(8, 2), name="never")
    assert running.result(200) == 4.0
    assert local.submit(divided.call(8, 2), name="never").result(200) == 4.0


def test_a_flow_function_may_use_the_client(local: pc.Client) -> None:
    @pc.flow
    def as_many_as_queues() -> Any:
        return divided(8.0 * len(local.queues()), len(local.queues()))

    assert local.submit(as_many_as_queues.call()).result(200) == 8.0


def test_a_killed_call_of_a_sweep_is_tried_again_and_one_over_its_timeout_is_not(local: pc.Client, tmp_path: Path) -> None:
    @pc.task(cpu="50m", retries=1, timeout=20)
    def dies_once(how: str) -> int:
        with open(tmp_path / how, "a") as file:
            file.write("x")
        starts = (tmp_path / how).stat().st_size
        if how == "killed" and starts == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "slow":
            time.sleep(600)
        return starts

    killed, slow = dies_once.sweep(["killed", "slow"]).results(200)
    assert killed == 2
    assert isinstance(slow, errors.TimedOut)
    assert (tmp_path / "slow").read_text() == "x"
    with pytest.raises(errors.TimedOut, match="longer than its timeout of 2 s"):
        dies_once.using(timeout=2, retries=0).run("slow").result(200)


def test_a_large_sweep_is_cut_into_several_jobs(local: pc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast_client.sweeps.MOST_PODS", 3)
    sweep = picky.sweep(number=list(range(1, 9)))
    assert len(sweep.jobs) == 3
    assert sorted(outcome.index for outcome in sweep.as_completed()) == list(range(8))
    assert sweep.results(200) == [number**2 for number in range(1, 9)]
    assert "8 succeeded" in sweep._repr_html_()


def test_async_client_runs_coroutine_tasks_and_sweeps_concurrently(local: pc.Client) -> None:
    import asyncio

    @pc.task
    async def slow(number: int) -> int:
        await asyncio.sleep(0.1)
        return number + 1

    async def several() -> list[Any]:
        client = pc.AsyncClient(namespace="default", image="local", kubeconfig=local.kubeconfig)
        client.python = sys.executable
        jobs = await asyncio.gather(*(client.submit(slow.call(number)) for number in range(3)))
        values = await asyncio.gather(*(job.result(200) for job in jobs))
        sweep = await client.submit(picky.calls(number=[1, 2]))
        outcomes = [outcome.value async for outcome in sweep.as_completed()]
        await client.close()
        return [*values, sorted(outcomes)]

    assert asyncio.run(several()) == [1, 2, 3, [1, 4]]


def test_program_with_an_unclosed_client_exits_without_output(local: pc.Client) -> None:
    script = f"""
import pyroclast.client as pc
c = pc.Client(namespace="default", kubeconfig={local.kubeconfig!r})
c.jobs()[0].wait(check=False)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_job_until_driver_ends_with_its_program_and_an_executor_is_found_again(
    local: pc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyroclast_client.sessions.ALIVE_SECONDS", 4)
    monkeypatch.setattr("pyroclast_client.sessions.BEAT_SECONDS", 1.0)
    driver = pc.Client(namespace="default", image="local", kubeconfig=local.kubeconfig)
    driver.asynchronous.python = sys.executable
    job = driver.submit(pc.task(cpu="10m", until="driver")(time.sleep).call(600))
    with pc.Executor(client=driver, name="nightly", cpu="10m") as executor:
        assert executor.submit(abs, -1).result(200) == 1
    time.sleep(6)  # longer than a program without a word counts as alive
    assert job.phase in {"Pending", "Running"}
    driver.close()  # as its end does
    found = local.job(job.name)
    with pytest.raises(errors.JobFailed, match="DriverGone"):
        found.wait(60)
    (of_executor,) = local.jobs(executor="nightly")
    assert of_executor.results() == [1]


def test_on_nodes_of_this_machine_a_function_runs_here_without_an_image(
    local: pc.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    with pc.Client(kubeconfig=local.kubeconfig):
        job = pc.task(cpu="10m")(lambda: (sys.executable, Path("data.txt").read_text())).run()
        assert job.result(200) == (sys.executable, "here")


def test_a_parallel_sweep_runs_so_many_calls_at_a_time_and_cancels_one(local: pc.Client, tmp_path: Path) -> None:
    @pc.task(cpu="10m", parallel=2)
    def counted(number: int) -> int:
        (tmp_path / f"{number}").touch()
        while number == 1 and not (tmp_path / "go").exists():
            time.sleep(0.1)
        at_once = len(list(tmp_path.glob("[0-9]")))
        (tmp_path / f"{number}").unlink()
        return at_once

    sweep = counted.sweep(range(6))
    sweep.cancel(1, 5)
    results = sweep.results(200)
    cancelled = [index for index, each in enumerate(results) if isinstance(each, errors.JobFailed)]
    assert cancelled == [1, 5]
    assert all("was cancelled before it had a result" in str(results[index]) for index in cancelled)
    assert {results[index] for index in (0, 2, 3, 4)} <= {1, 2}
    whole = counted.using(parallel=None).sweep([1, 1])
    with pytest.raises(errors.Usage, match="has no `parallel`"):
        whole.cancel(0)
    whole.cancel()
    assert all("was cancelled" in str(each) for each in whole.results(100))


def test_what_deleted_jobs_kept_in_a_store_is_removed_with_a_later_submission(local: pc.Client, tmp_path: Path) -> None:
    store, others = f"file://{tmp_path}", tmp_path / ("0" * 16)
    others.mkdir()

    def client() -> pc.Client:
        client = pc.Client(namespace="default", image="local", kubeconfig=local.kubeconfig, store=store)
        client.asynchronous.python = sys.executable
        return client

    noise = pc.task(cpu="10m")(os.urandom)
    with client() as first:
        gone, stays = (first.submit(noise.call(size)) for size in (2 << 20, 2 << 20 | 1))
        assert len(gone.result(200)) + 1 == len(stays.result(200))
        gone.delete()
        folders = {job: tmp_path / job.object()["metadata"]["annotations"]["client.pyroclast.dev/submission"] for job in (stays,)}
    notes = list(tmp_path.glob("owners/*/*"))
    assert len(notes) == 2
    for note in notes:
        os.utime(note, (0, 0))
    with client() as second:
        second.submit(noise.call(1)).wait(200)
    assert folders[stays].exists()
    assert others.exists()  # of another cluster, say
    assert {path.name for path in tmp_path.iterdir() if len(path.name) == 16} <= {others.name, folders[stays].name}
