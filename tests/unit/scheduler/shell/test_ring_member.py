"""What a member of a ring sees, and what it counts of the others."""

from pyroclast.api import records
from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.sharding import Ring
from pyroclast_scheduler.shell.sharding import RingMember

RING = Ring("vs-0", 2)
MINE, OTHER = (next(name for name in map(str, range(99)) if RING.is_mine(name) is want) for want in (True, False))


def owned(kind, job, name, **fields):
    owner = records.OwnerReference(name=job, kind="Job", uid=job)
    annotations = {"scheduling.k8s.io/group-name": job} if kind is records.Pod else {}
    meta = records.Meta(namespace="t", name=name, uid=name, owner_references=(owner,), annotations=annotations)
    return kind(metadata=meta, **fields)


def pod(job, name, node=""):
    container = records.Container(name="c", resources=records.Resources(requests={"cpu": "1"}))
    spec = records.PodSpec(scheduler_name="volcano", node_name=node, containers=(container,))
    return owned(records.Pod, job, name, spec=spec, status=records.PodStatus(phase="Running" if node else "Pending"))


def member():
    cache = Cache(("volcano",))
    made = RingMember(RING, cache, ("volcano",), default_queue="default")
    made.queue_changed(None, records.Queue(metadata=records.Meta(name="default")))
    for name in (MINE, OTHER):
        status = records.NodeStatus(allocatable={"cpu": "4", "pods": "9"})
        made.node_changed(None, records.Node(metadata=records.Meta(name=name), status=status))
        spec = records.PodGroupSpec(min_member=1, queue="default")
        made.group_changed(None, owned(records.PodGroup, name, name, spec=spec))
    return made, cache


def test_a_ring_member_caches_only_nodes_and_jobs_assigned_to_it():
    made, cache = member()
    for job in (MINE, OTHER):
        made.pod_changed(None, pod(job, f"{job}-p"))
    view = cache.view()
    assert set(view.rows) == {MINE}
    assert set(view.all_jobs) == {f"t/{MINE}"}
    assert set(cache.tasks) == {f"{MINE}-p"}


def test_pods_of_other_ring_members_use_node_capacity_and_count_for_their_queue():
    made, cache = member()
    waiting, bound = pod(OTHER, "p"), pod(OTHER, "p", MINE)
    made.pod_changed(None, waiting)
    made.pod_changed(waiting, bound)
    made.pod_changed(None, pod(OTHER, "elsewhere", OTHER))
    assert cache.view().columns.used[0, cache.nodes.rows[MINE]] == 1000
    assert "elsewhere" not in cache.tasks
    assert made.elsewhere() == {"default": {"cpu": 2000, "pods": 2}}
    made.pod_changed(bound, None)
    assert cache.view().columns.used[0, cache.nodes.rows[MINE]] == 0
    assert made.elsewhere() == {"default": {"cpu": 1000, "pods": 1}}


def test_exactly_one_ring_member_writes_a_queue():
    assert sum(RingMember(Ring(f"vs-{i}", 2), Cache(), (), default_queue="d").writes("q") for i in range(2)) == 1


def test_a_shared_cache_skips_jobs_of_other_schedulers_but_counts_them_for_their_queue():
    cache = Cache(("a",), is_shared=True)
    cache.queue_changed(None, records.Queue(metadata=records.Meta(name="default")))
    spec = records.PodGroupSpec(min_member=1, queue="default")
    cache.group_changed(None, owned(records.PodGroup, "j", "j", spec=spec))
    assert len(cache.snapshot().jobs) == 1, "nobody knows whose it is"
    waiting, bound = pod("j", "p"), pod("j", "p", "n")
    cache.pod_changed(None, waiting)
    assert cache.snapshot().jobs == []
    cache.pod_changed(waiting, bound)
    view = cache.snapshot()
    assert view.jobs == []
    assert view.queue_sums["default"].allocated[0] == 1000, "it counts"
    cache.stale()
    assert cache.snapshot().jobs == []
    cache.pod_changed(bound, None)
    assert len(cache.snapshot().jobs) == 1


def native(job, name, **fields):
    """A pod of a group of Kubernetes itself, or the group: with the owners that its Job controller gives both."""
    kind = records.PodGroup if not fields else records.Pod
    made = owned(kind, job, name)
    if kind is records.PodGroup:
        return records.NativePodGroup(metadata=made.metadata)
    spec = records.PodSpec(
        scheduler_name="volcano",
        scheduling_group=records.SchedulingGroup(pod_group_name=f"{job}-group"),
        containers=(records.Container(name="c", resources=records.Resources(requests={"cpu": "1"})),),
        **fields,
    )
    metadata = records.Meta(namespace="t", name=name, uid=name, owner_references=made.metadata.owner_references)
    return records.Pod(metadata=metadata, spec=spec, status=records.PodStatus(phase="Running" if spec.node_name else "Pending"))


def test_kubernetes_podgroups_belong_to_the_ring_member_of_their_job():
    made, cache = member()
    for job in (MINE, OTHER):
        made.native_group_changed(None, native(job, f"{job}-group"), NATIVE_POD_GROUPS)
        made.pod_changed(None, native(job, f"{job}-p", node_name=OTHER if job == OTHER else ""))
    assert {key for key in cache.view().all_jobs if "@" in key} == {f"t/{MINE}-group@scheduling.k8s.io"}
    assert set(cache.tasks) == {f"{MINE}-p"}
    assert made.elsewhere() == {"default": {"cpu": 1000, "pods": 1}}


def test_a_pod_without_an_owner_belongs_to_the_ring_member_of_its_podgroup():
    made, cache = member()
    for name in (MINE, OTHER):
        spec = records.PodSpec(scheduler_name="volcano", scheduling_group=records.SchedulingGroup(pod_group_name=name))
        metadata = records.Meta(namespace="t", name=f"p-{name}", uid=f"p-{name}")
        made.pod_changed(None, records.Pod(metadata=metadata, spec=spec, status=records.PodStatus(phase="Pending")))
    assert set(cache.tasks) == {f"p-{MINE}"}
