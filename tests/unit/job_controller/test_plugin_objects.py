"""The objects that plugins want beside a Job: who makes them, what follows the Job's scale, and what others do to them."""

import base64

from pyroclast.api.keys import JOB_NAME
from pyroclast.api.types import CONFIG_MAPS, JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, SERVICES, Key
from pyroclast.kube.http.client import Client, PatchKind

from .cluster import NS, task
from .test_controller import command, told

NAMES = {"svc": [], "ssh": []}


async def data_of(cluster, name="j-ssh"):
    data = (await cluster.client.get(SECRETS, Key(NS, name)))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def scale(cluster, size, name="j"):
    patch = [
        {"op": "add", "path": "/spec/minAvailable", "value": size},
        {"op": "add", "path": "/spec/tasks/0/replicas", "value": size},
        {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": size},
    ]
    await cluster.client.patch(JOBS, Key(NS, name), patch, PatchKind.JSON)


async def pods_are(cluster, count):
    async def there():
        return len(await cluster.names(PODS)) == count

    await cluster.until(there)


async def test_ssh_keys_stay_and_ssh_hosts_follow_when_the_job_is_scaled(cluster):
    await cluster.running("j", task(replicas=1), plugins=NAMES)
    job = await cluster.client.get(JOBS, Key(NS, "j"))
    secret = await cluster.client.get(SECRETS, Key(NS, "j-ssh"))
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert secret["metadata"]["labels"] == {JOB_NAME: "j"}
    assert job["status"]["controlledResources"] == {"plugin-svc": "svc", "plugin-ssh": "ssh"}
    first = await data_of(cluster)
    for size in (3, 2):
        await scale(cluster, size)
        await pods_are(cluster, size)
        data = await data_of(cluster)
        assert [line for line in data["config"].splitlines() if line.startswith("Host ")] == [
            f"Host j-a-{index}" for index in range(size)
        ]
        assert {**data, "config": ""} == {**first, "config": ""}


async def test_hosts_are_written_before_the_pods_that_scaling_adds(cluster, monkeypatch):
    await cluster.running("j", task(replicas=1), plugins=NAMES)
    writes = []

    def noted(verb):
        plain = getattr(Client, verb)

        async def note(self, kind, *arguments, **options):
            answer = await plain(self, kind, *arguments, **options)
            is_read = {} in arguments  # a Secret is read by an empty patch
            if not is_read and (kind in (CONFIG_MAPS, SECRETS) or (kind is PODS and verb == "create")):
                writes.append(kind)
            return answer

        monkeypatch.setattr(Client, verb, note)

    noted("create")
    noted("patch")
    await scale(cluster, 3)
    await pods_are(cluster, 3)
    assert writes == [CONFIG_MAPS, SECRETS, PODS, PODS]


async def test_the_user_s_keys_are_put_into_the_secret(cluster):
    await cluster.running("j", plugins={"ssh": ["--ssh-private-key=mine", "--ssh-public-key=also mine"]})
    data = await data_of(cluster)
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("mine", "also mine", "also mine")


async def test_ray_job_without_a_head_task_is_reported_and_gets_no_service(cluster):
    await cluster.job("j", plugins={"ray": []})

    async def named():
        text = "PluginError: Execute plugin when job add failed, err: job j doesn't have head task head"
        return text in await told(cluster)

    await cluster.until(named)
    assert "j-head-svc" not in await cluster.names(SERVICES)


async def test_ray_service_is_created_with_the_job_and_deleted_when_the_job_is_aborted(cluster):
    await cluster.running("j", task("head"), task("worker"), plugins={"ray": []})
    service = await cluster.client.get(SERVICES, Key(NS, "j-head-svc"))
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["gcs", "dashboard", "client-server"]
    await command(cluster, "AbortJob")
    await cluster.reaches("j", "Aborted")

    async def gone():
        resources = (await cluster.client.get(JOBS, Key(NS, "j")))["status"].get("controlledResources", {})
        return "j-head-svc" not in await cluster.names(SERVICES) and not resources

    await cluster.until(gone)


async def test_missing_volume_claim_is_created_again_under_its_name_before_new_pods(cluster, monkeypatch):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.running("j", task(replicas=1), volumes=[{"mountPath": "/data", "volumeClaim": claim}])
    (name,) = await cluster.names(PERSISTENT_VOLUME_CLAIMS)
    free = {"metadata": {"finalizers": None}}
    await cluster.client.patch(PERSISTENT_VOLUME_CLAIMS, Key(NS, name), free, PatchKind.MERGE)
    await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, Key(NS, name))
    create, made = cluster.controller_client.create, []

    async def noted(kind, body, **more):
        answer = await create(kind, body, **more)
        made.append((kind, answer["metadata"]["name"]))
        return answer

    monkeypatch.setattr(cluster.controller_client, "create", noted)
    await scale(cluster, 2)
    await pods_are(cluster, 2)
    assert [each for each in made if each[0] in (PERSISTENT_VOLUME_CLAIMS, PODS)] == [
        (PERSISTENT_VOLUME_CLAIMS, name),
        (PODS, "j-a-1"),
    ]
    pod = await cluster.client.get(PODS, Key(NS, "j-a-1"))
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == name


async def test_scaling_down_deletes_surplus_configmaps_and_a_left_out_variable_is_reported(cluster):
    cluster.admitting = False  # no pod is needed
    await cluster.job("j", task(replicas=100_000), plugins={"svc": []})

    async def made(*names):
        return [name for name in await cluster.names(CONFIG_MAPS) if name.startswith("j-")] == list(names)

    await cluster.until(lambda: made("j-svc", "j-svc-1"))

    async def said():
        return any(each.startswith("VariableLeftOut: VC_A_HOSTS is not set") for each in await told(cluster))

    await cluster.until(said)
    await scale(cluster, 10)
    await cluster.until(lambda: made("j-svc"))
