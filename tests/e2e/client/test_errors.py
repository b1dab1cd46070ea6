"""Every error of the client, raised for real: its message names the object and what to do."""

from __future__ import annotations

import json
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import pyroclast.client as pc
from pyroclast.api.types import PODS, SERVICE_ACCOUNTS, Key
from pyroclast_client import errors
from pyroclast_client.compilation import Surroundings, compiled
from pyroclast_client.loops import run
from pyroclast_client.planes import LocalClient
from tests.e2e.support.cluster import wait_until

pytestmark = pytest.mark.timeout(600)  # they start many processes


@pytest.fixture(scope="module")
def local() -> Iterator[LocalClient]:
    with pc.local(nodes=1) as client:
        yield client


def manifest(command: str, **requests: str) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", command], "resources": {"requests": requests}}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    return {"spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]}}


async def token_of(local: LocalClient, account: str) -> str:
    kube = (await local.asynchronous.session()).kube
    await kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": account, "namespace": "default"}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    issued = await kube.create(SERVICE_ACCOUNTS, body, namespace="default", name=account, subresource="token")
    return str(issued["status"]["token"])


def no_cluster(local: LocalClient, folder: Path) -> None:
    document = yaml.safe_load(Path(local.kubeconfig).read_text())
    document["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"  # nobody listens there
    (folder / "kubeconfig").write_text(json.dumps(document))
    pc.Client(kubeconfig=str(folder / "kubeconfig")).jobs()


def forbidden(local: LocalClient, folder: Path) -> None:
    document = yaml.safe_load(Path(local.kubeconfig).read_text())
    user = document["contexts"][0]["context"]["user"]
    document["users"] = [{"name": user, "user": {"token": run(token_of(local, "nobody"))}}]
    (folder / "kubeconfig").write_text(json.dumps(document))
    with pc.Client(namespace="default", kubeconfig=str(folder / "kubeconfig")) as client:
        client.submit(manifest("true"), name="train")


def not_found(local: LocalClient, folder: Path) -> None:
    local.job("missing")


def rejected(local: LocalClient, folder: Path) -> None:
    local.submit({"spec": {**manifest("true")["spec"], "minAvailable": 5}}, name="train")


def refused(local: LocalClient, folder: Path) -> None:
    local.submit({"spec": {**manifest("true")["spec"], "queue": "nowhere"}}, name="train")


def never_fits(local: LocalClient, folder: Path) -> None:
    with local.submit(manifest("true", cpu="10000"), name="huge", cancel_on_exit=True) as job:
        job.wait(100, fail_if_never=True)


def job_failed(local: LocalClient, folder: Path) -> None:
    local.submit(manifest("echo no; exit 3"), name="bad").wait(100)


def cancelled(local: LocalClient, folder: Path) -> None:
    job = local.submit(manifest("sleep 600"), name="cancelled").wait(100, "running")
    job.cancel()
    job.wait(100)


def suspended(local: LocalClient, folder: Path) -> None:
    job = local.submit(manifest("sleep 600"), name="suspended").wait(100, "running")
    job.suspend()
    job.wait(100)


def deleted(local: LocalClient, folder: Path) -> None:
    job = local.submit(manifest("sleep 600"), name="deleted").wait(100, "running")
    threading.Timer(1, job.delete).start()
    job.wait(100)


def evicted(local: LocalClient, folder: Path) -> None:
    @pc.task(gang=2)
    def long() -> None:
        time.sleep(600)

    async def take(name: str) -> None:
        await (await local.asynchronous.session()).kube.delete(PODS, Key("default", name))

    job = local.submit(long.call(), name="evicted").wait(100, "running")
    run(take("evicted-main-1"))
    job.wait(100)


@pc.task
def divided(a: int, b: int) -> float:
    return a / b


def task_error(local: LocalClient, folder: Path) -> None:
    local.submit(divided.call(1, 0), name="divided").result(100)


def timed_out(local: LocalClient, folder: Path) -> None:
    with local.submit(manifest("sleep 600"), name="slow", cancel_on_exit=True) as job:
        job.wait(0.1)


def bare(local: LocalClient) -> pc.Client:
    """A client without a store."""
    client = pc.Client(namespace="default", image="local", kubeconfig=local.kubeconfig)
    client.asynchronous.python = sys.executable
    return client


def result_too_large(local: LocalClient, folder: Path) -> None:
    @pc.task
    def large() -> bytes:
        return b"x" * (2 << 20)

    with bare(local) as client:
        client.submit(large.call(), name="large").result(100)


def result_gone(local: LocalClient, folder: Path) -> None:
    job = local.submit(divided.call(1, 1), name="gone").wait(100)
    other = pickle.loads(pickle.dumps(job))
    job.delete()
    wait_until(lambda: "gone" not in {each.name for each in local.jobs()}, "the Job to go")
    other.result()


def forged_result(local: LocalClient, folder: Path) -> None:
    """The pod writes what it has sealed itself, without the key."""

    @pc.task
    def forge() -> None:
        import json
        import os

        with open(os.environ["PYROCLAST_TERMINATION_LOG"], "w") as file:
            json.dump({"v": 1, "kind": "value", "mac": "0" * 64}, file)
        os._exit(0)

    local.submit(forge.call(), name="forged").result(100)


def version_mismatch(local: LocalClient, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyroclast_client.payload.sys", SimpleNamespace(**vars(sys) | {"version_info": (3, 99)}))
        job = local.submit(divided.call(1, 1), name="other-python")
    job.result(100)


def job_replaced(local: LocalClient, folder: Path) -> None:
    job = local.submit(manifest("true"), name="twice").wait(100)
    job.delete()
    wait_until(lambda: "twice" not in {each.name for each in local.jobs()}, "the Job to go")
    local.submit(manifest("true"), name="twice")
    job.wait(100)


def flow_error(local: LocalClient, folder: Path) -> None:
    @pc.flow
    def choosing() -> None:
        if divided(1, 1):
            divided(2, 1)

    local.submit(choosing.call())


def flow_failed(local: LocalClient, folder: Path) -> None:
    @pc.flow
    def failing() -> None:
        divided(1, 0)

    local.submit(failing.call()).wait(100)


def usage(local: LocalClient, folder: Path) -> None:
    call = divided.call(1, 1)
    compiled(call.function, [call.arguments], call.options, Surroundings("default"), name="divided")  # on nodes elsewhere


CASES: dict[str, tuple[type[errors.PyroclastError], Callable[[LocalClient, Path], None], str, str]] = {
    "no cluster": (errors.NoCluster, no_cluster, "the Jobs of namespace default", "Check the address"),
    "no right": (errors.Forbidden, forbidden, "Job default/train", "Ask the administrator for the ClusterRole pyroclast-user"),
    "no object": (errors.NotFound, not_found, "Job default/missing", "Check its name"),
    "broken rules": (errors.Rejected, rejected, "Job train breaks rules: spec.minAvailable", "Correct that"),
    "refused by the server": (errors.Rejected, refused, "Job default/train", "Correct that"),
    "never fits": (errors.NeverFits, never_fits, "default/huge waits in queue default", "`explain()` tells more"),
    "failed": (errors.JobFailed, job_failed, "Job default/bad", "`vcctl logs -N bad -n default` shows all lines"),
    "cancelled": (errors.JobFailed, cancelled, "Job default/cancelled", "submit it again"),
    "suspended": (errors.JobFailed, suspended, "Job default/suspended", "`resume()` lets it go on"),
    "deleted": (errors.JobFailed, deleted, "Job default/deleted was deleted while it was waited for", "Submit it again"),
    "evicted": (errors.Evicted, evicted, "Job default/evicted", "give it `retries`"),
    "raised": (errors.TaskError, task_error, "Job default/divided", "`logs(index=0)` has what it printed"),
    "too long": (errors.TimedOut, timed_out, "Job default/slow", "`explain()` says why"),
    "too large": (errors.ResultTooLarge, result_too_large, "Job default/large", "`store='file:///shared/folder'`"),
    "gone": (errors.ResultGone, result_gone, "Job default/gone", "call `result()` or `wait()` before it goes"),
    "forged": (errors.ForgedResult, forged_result, "Job default/forged", "Look at who may write to pods"),
    "another Python": (errors.VersionMismatch, version_mismatch, "Job default/other-python", "use an image with Python 3.99"),
    "another Job": (errors.JobReplaced, job_replaced, "Job default/twice", "`pc.job('twice')` is a handle of that one"),
    "no flow": (errors.FlowError, flow_error, __file__, "with pc.when(node.succeeded):"),
    "failed flow": (errors.JobFailed, flow_failed, "JobFlow default/failing-", "`retry()` runs what has not completed"),
    "no image": (errors.Usage, usage, "task: image", "set PYROCLAST_IMAGE"),
}


@pytest.mark.parametrize(("kind", "raising", "about", "advice"), CASES.values(), ids=CASES.keys())
def test_client_error_message_names_the_object_and_a_remedy(
    local: LocalClient,
    tmp_path: Path,
    kind: type[errors.PyroclastError],
    raising: Callable[[LocalClient, Path], None],
    about: str,
    advice: str,
) -> None:
    with pytest.raises(errors.PyroclastError) as caught:
        raising(local, tmp_path)
    assert type(caught.value) is kind
    assert about in str(caught.value)
    assert advice in str(caught.value)


def test_every_client_error_class_has_a_test_case() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PyroclastError)}
    assert {kind for kind, *_ in CASES.values()} == kinds - {errors.PyroclastError}
