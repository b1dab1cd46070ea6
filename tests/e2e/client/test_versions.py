"""The client and a server that is older: it lacks a field of Jobs, which is left out and named."""

from __future__ import annotations

import pytest

import pyroclast.client as pc
from pyroclast.api.types import CRDS, Key
from pyroclast.kube.http.client import PatchKind
from pyroclast_client import errors
from pyroclast_client.loops import run

pytestmark = pytest.mark.timeout(600)  # they start many processes


@pc.task(topology=1)
def two() -> int:
    """A number."""
    return 2


async def forget(client: pc.Client, field: str) -> None:
    """Have the server not know a field of the spec of Jobs."""
    kube, key = (await client.asynchronous.session()).kube, Key("", "jobs.batch.volcano.sh")
    found = await kube.get(CRDS, key)
    versions = found["spec"]["versions"]
    for version in versions:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][field]
    await kube.patch(CRDS, key, {"spec": {"versions": versions}}, PatchKind.MERGE)


def test_job_field_unknown_to_an_older_server_is_omitted_with_a_warning() -> None:
    with pc.local(nodes=1) as client:
        run(forget(client, "networkTopology"))
        with pytest.warns(errors.PyroclastWarning, match=r"does not know spec.networkTopology, which is left out; upgrade"):
            job = two.run()
        assert "networkTopology" not in job.object()["spec"]
        assert job.result(100) == 2
        typo = {**job.object(), "metadata": {"name": "typo"}}
        typo["spec"] = {**typo["spec"], "queeu": "default"}
        with pytest.raises(errors.Rejected, match=r"spec\.queeu: unknown field"):  # no field of any version
            client.submit(typo)
