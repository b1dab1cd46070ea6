"""The control plane on this machine: its processes, their settings, and the order in which they start."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from pyroclast.api.types import CONFIG_MAPS, QUEUES, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.credentials.config import ClusterConfig, load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.runtime.leadership import identity
from pyroclast_standalone import installation
from pyroclast_standalone.accounts import Accounts
from pyroclast_standalone.directory import CommandError, DataDirectory, require_answer
from pyroclast_standalone.installation import remove
from pyroclast_standalone.nodes.processes.machine import find_machine
from pyroclast_standalone.processes import Program, Supervisor, free_port, is_free

USER_AGENT = "pyroclast"
DEFAULT_QUEUE_SECONDS = 180.0
ANSWER_SECONDS = 2.0
DATABASE_VARIABLE = "PYROCLAST_DATABASE_URL"
PLACEMENT_VARIABLE = "PYROCLAST_ALLOW_JOB_PLACEMENT"
"""The variable with the URL of the recorder's database, because a command line must not contain a password."""

SCHEDULER_NAME = "volcano"  # the default scheduler name in the settings


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a control plane. `kubeconfig` names an existing cluster. Without it, the embedded API server starts.

    Attributes:
        port: the port of the embedded API server, 0 for any.
        place_before_pods: whether gangs are placed before their pods exist.
        publish_native_groups: whether gangs of Jobs are also shown as native PodGroups.
        one_pod_without_group: whether Jobs of one pod get no PodGroup.
        machine: whether the only node is this machine, with its true size.
        multi_user: whether users of this machine are users of the cluster, whose pods run under their accounts.
    """

    directory: DataDirectory
    kubeconfig: Path | None = None
    port: int = 0
    nodes: int = 4
    node_mode: str = "simulated"
    node_prefix: str = "node-"
    audit_log: Path | None = None
    place_before_pods: bool = True
    node_resources: tuple[str, ...] = ()
    publish_native_groups: bool = False
    machine: bool = False
    multi_user: bool = False
    one_pod_without_group: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane: its administrator's kubeconfig, the URL of its web page, and `watch`.

    `watch` keeps the control plane running until cancelled.
    """

    kubeconfig: Path
    supervisor: Supervisor
    accounts: Accounts
    services: tuple[str, ...]
    board: str

    async def watch(self) -> None:
        """Restart processes that die and renew credentials, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.supervisor.watch())
            group.create_task(self.accounts.keep_fresh())


@asynccontextmanager
async def running(options: Options, say: Callable[[str], None]) -> AsyncIterator[Plane]:
    """Start all processes. Yield when all are ready and the queue `default` is Open. At the end, stop all processes."""
    directory = options.directory
    port = await check(options)
    directory.prepare()
    with directory.locked():
        supervisor = Supervisor(directory.logs, say)
        try:
            kubeconfig = options.kubeconfig or await _start_api_server(supervisor, options, port)
            cluster = load_config(str(kubeconfig))
            async with Client(cluster, user_agent=USER_AGENT) as client:
                plane = await _start_services(supervisor, options, client, cluster, kubeconfig)
                await _queue_is_open(client)
                yield plane
        finally:
            await supervisor.stop()


async def check(options: Options) -> int:
    """Check before any write whether `running` can start. Return the port for the embedded API server, otherwise 0."""
    directory = options.directory
    directory.check_idle()
    if options.kubeconfig is not None:
        async with Client(load_config(str(options.kubeconfig)), user_agent=USER_AGENT) as client:
            await require_answer(client, f"--kubeconfig {options.kubeconfig}")
        return 0
    port = options.port or _last_port(directory.kubeconfig) or free_port()
    if not is_free(port):
        raise CommandError(f"--port {port}: something listens there already; give a free port, or 0 to have one chosen")
    return port


async def purge(kubeconfig: Path) -> None:
    """Remove from a cluster everything that `running` installed. With the CRDs, all objects of Pyroclast's kinds are deleted."""
    async with Client(load_config(str(kubeconfig)), user_agent=USER_AGENT) as client:
        await remove(client, installation.objects("", place_before_pods=True, publish_native_groups=True))


async def _start_api_server(supervisor: Supervisor, options: Options, port: int) -> Path:
    directory = options.directory

    async def is_ready() -> bool:
        if not directory.kubeconfig.exists() or is_free(port):
            return False
        async with Client(load_config(str(directory.kubeconfig)), user_agent=USER_AGENT) as client:
            return await _answers(client)

    own = {"data_dir": directory.root, "port": port, "scheduler": SCHEDULER_NAME, "audit_log": options.audit_log}
    arguments = flags(**own, record_creators=options.multi_user)
    await supervisor.start(Program("apiserver", "pyroclast_standalone.apiserver", arguments, is_ready))
    return directory.kubeconfig


def flags(**values: object) -> tuple[str, ...]:
    """Return the words of a command line: a flag for each name, with its value, without one if it is True, for each of a tuple.

    None and False stand for no flag.
    """
    words: list[str] = []
    for name, given in values.items():
        for value in given if isinstance(given, tuple) else (given,):
            if value is not None and value is not False:
                words += [f"--{name.replace('_', '-')}", *(() if value is True else (str(value),))]
    return tuple(words)


async def _start_services(
    supervisor: Supervisor, options: Options, client: Client, cluster: ClusterConfig, kubeconfig: Path
) -> Plane:
    webhook_port, history_port, board_port = free_port(), free_port(), free_port()
    is_embedded = options.kubeconfig is None
    webhook = f"https://127.0.0.1:{webhook_port}"
    wanted = installation.objects(
        webhook,
        is_embedded=is_embedded,
        place_before_pods=options.place_before_pods,
        publish_native_groups=options.publish_native_groups,
    )
    await installation.apply(client, wanted)
    if is_embedded:
        await installation.remove_other_nodes(client, find_machine(1).name if options.machine else "")
    await _tell(client, "recorder", f"http://127.0.0.1:{history_port}")
    await _tell(client, "board", f"http://127.0.0.1:{board_port}", multiUser=str(options.multi_user).lower())
    accounts = Accounts(client, cluster, options.directory.accounts, supervisor.say)
    scheduler = f"127.0.0.1:{free_port()}"
    services = _services(options, webhook_port, history_port, board_port, scheduler, accounts)

    addresses = {service.name: f"127.0.0.1:{free_port()}" for service in services} | {"scheduler": scheduler}
    options.directory.addresses.write_text(json.dumps(addresses, indent=2) + "\n")
    await _tell(client, "scheduler", f"http://{addresses['scheduler']}")

    async def start(service: _Service) -> None:
        credentials = await accounts.issue(service.account)
        is_own = not options.multi_user  # the machine is its user's own
        await supervisor.start(_program(service, credentials, addresses[service.name], trusts_local=is_own))

    async with asyncio.TaskGroup() as group:
        for service in services:
            group.create_task(start(service))
    board = f"http://127.0.0.1:{board_port}"
    return Plane(kubeconfig, supervisor, accounts, tuple(service.account for service in services), board)


@dataclass(frozen=True, slots=True)
class _Service:
    name: str
    module: str
    account: str
    arguments: tuple[str, ...] = ()
    metrics_flag: str = "--listen-address"


def _services(  # noqa: PLR0917 - the addresses of the services
    options: Options, webhook_port: int, history_port: int, board_port: int, scheduler: str, accounts: Accounts
) -> list[_Service]:
    root = options.directory.root
    scheduler_configuration = root / "scheduler.conf"
    if not scheduler_configuration.exists():  # a user may have changed the file
        scheduler_configuration.write_text(installation.scheduler_configuration())
    release, namespace = installation.RELEASE, installation.NAMESPACE
    # the supervisor restarts a service only after it has ended, so the service need not wait for its own Lease
    lease = flags(leader_elect_resource_namespace=namespace, leader_elect_identity=identity())
    nodes = flags(
        nodes=options.nodes,
        mode=options.node_mode,
        name_prefix=options.node_prefix,
        data_dir=root / "nodes",
        resource=options.node_resources,
        machine=options.machine,
        run_as_submitter=options.multi_user,
        client_ca_file=root / "ca.crt" if options.multi_user else None,
    )
    webhook = f"https://127.0.0.1:{webhook_port}"
    webhooks = flags(listen_address="127.0.0.1", port=webhook_port, webhook_url=webhook, webhook_namespace=namespace)
    database = None if os.environ.get(DATABASE_VARIABLE) else f"sqlite:///{root.resolve()}/history.db"
    history = flags(database_url=database, api_address=f"127.0.0.1:{history_port}")
    token = accounts.servers_token(f"{release}-board").resolve()
    pages = flags(
        login="token" if options.multi_user else "local",
        page_address=f"127.0.0.1:{board_port}",
        scheduler_url=f"http://{scheduler}",
        recorder_url=f"http://127.0.0.1:{history_port}",
        lease_namespace=namespace,
        recorder_token_file=token,
        scheduler_token_file=token,
    )
    # pods that are processes have loopback addresses, which the probes of flows must reach
    probes = flags(probe_local_addresses=options.nodes > 0 and options.node_mode == "process")
    seats = flags(place_before_pods=options.place_before_pods)
    jobs = flags(
        controller_configmap=f"{release}-controller-configmap",
        publish_native_groups=options.publish_native_groups,
        one_pod_without_group=options.one_pod_without_group,
    )
    checked = installation.in_process_webhooks
    # one user, who may do everything: a Job may try out another scheduler
    placed = flags(allow_job_placement=PLACEMENT_VARIABLE not in os.environ and not options.multi_user)
    configuration = flags(scheduler_conf=scheduler_configuration)
    services = [
        _Service("admission", "pyroclast_admission", f"{release}-admission", (*webhooks, *placed), "--metrics-address"),
        _Service("board", "pyroclast_board", f"{release}-board", pages),
        _Service(
            "job-controller",
            "pyroclast_job_controller",
            f"{release}-controllers",
            (*placed, *jobs, *seats, *checked("pyroclast_job_controller"), *lease, *_wait_for("vc-controller-manager")),
        ),
        _Service(
            "jobflow-controller",
            "pyroclast_jobflow_controller",
            f"{release}-jobflow",
            (*placed, *probes, *checked("pyroclast_jobflow_controller"), *lease, *_wait_for("vc-controller-manager")),
        ),
        _Service("recorder", "pyroclast_recorder", f"{release}-recorder", (*history, *lease)),
        _Service(
            "scheduler", "pyroclast_scheduler", f"{release}-scheduler", (*configuration, *seats, *lease, *_wait_for("volcano"))
        ),
    ]
    if options.nodes:
        services.insert(0, _Service("nodes", "pyroclast_standalone.nodes", f"{release}-nodes", nodes))
    return services


def _wait_for(lease: str) -> tuple[str, ...]:
    """Return the flags with which a service waits while an installed Volcano holds this Lease, or its Deployment has replicas."""
    app = "volcano-scheduler" if lease == "volcano" else "volcano-controller"
    return flags(leader_elect_wait_for=f"volcano-system/{lease}", leader_elect_wait_for_app=app)


async def _tell(client: Client, service: str, url: str, **more: str) -> None:
    """Write the URL of a service to a ConfigMap, for users and the command line."""
    name = f"{installation.RELEASE}-{service}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": installation.NAMESPACE},
        "data": {"url": url, **more},
    }
    key = Key(installation.NAMESPACE, name)
    await client.patch(CONFIG_MAPS, key, body, PatchKind.APPLY, field_manager=USER_AGENT, force=True)


def _program(service: _Service, credentials: Path, address: str, *, trusts_local: bool) -> Program:
    """Return the program of `service`. Health and metrics are served on `address`."""

    async def is_ready() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"http://{address}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    served = flags(enable_healthz=True, healthz_address=address, enable_metrics=True)
    common = (*flags(kubeconfig=credentials, trust_local_clients=trusts_local), *served)
    return Program(service.name, service.module, (*common, service.metrics_flag, address, *service.arguments), is_ready)


async def _answers(client: Client) -> bool:
    try:
        await client.request("GET", "/readyz", deadline=Deadline.after(ANSWER_SECONDS))
    except KubeError:
        return False
    return True


async def _queue_is_open(client: Client) -> None:
    try:
        async with asyncio.timeout(DEFAULT_QUEUE_SECONDS):
            while not await _is_open(client, Key("", "default")):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise CommandError(
            f"queue default was not Open within {DEFAULT_QUEUE_SECONDS:.0f} s; the logs of scheduler and job-controller say why"
        ) from None


async def _is_open(client: Client, queue: Key) -> bool:
    try:
        found = await client.get(QUEUES, queue)
    except NotFound:
        return False
    return bool(found.get("status", {}).get("state") == "Open")


def _last_port(kubeconfig: Path) -> int | None:
    """Return the port of the last start if it is free, so that a kubeconfig stays valid after a restart. Otherwise None."""
    if not kubeconfig.exists():
        return None
    port = int(load_config(str(kubeconfig)).server.rpartition(":")[2])
    return port if is_free(port) else None
