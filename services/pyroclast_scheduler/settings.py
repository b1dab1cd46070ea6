"""The settings of the scheduler: the flags of Volcano, with their defaults."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from pyroclast.runtime.durations import Duration
from pyroclast.runtime.settings import LeaderElectionSettings, Names

__all__ = ["SchedulerSettings"]


class SchedulerSettings(LeaderElectionSettings):
    """The settings. Flags for features that this scheduler does not have are accepted without effect, as their help says."""

    leader_elect_resource_name: str = Field("volcano", description="name of the Lease")
    kube_api_qps: float = Field(2000.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(2000, ge=0, description="requests to the API server in a burst, above --kube-api-qps")
    scheduler_name: Names = Field(("volcano",), description="name by which pods ask for this scheduler; may be repeated")
    scheduler_conf: str = Field("", description="configuration file with actions and plugins; reloaded when it changes")
    disable_default_scheduler_config: bool = Field(
        default=False, description="end when the file of --scheduler-conf cannot be used"
    )
    schedule_period: Duration = Field(timedelta(seconds=1), description="longest time between two cycles")
    default_queue: str = Field("default", description="queue of PodGroups that name none; made at start")
    priority_class: bool = Field(default=True, description="take PriorityClasses into account")
    node_selector: Names = Field((), description="label:value; only nodes with any of them are used; may be repeated")
    native_workloads: bool = Field(
        default=True, description="serve the PodGroups of Kubernetes itself (scheduling.k8s.io), where the API server has them"
    )
    scheduler_sharding_mode: Literal["none", "hard", "soft"] = Field(
        "none", description="hard uses only the nodes of our NodeShard, soft uses those first, none all alike"
    )
    scheduler_sharding_name: str = Field("volcano", description="name of our NodeShard")
    place_before_pods: bool = Field(
        default=False,
        description="place gangs whose PodGroups ask for it before their pods exist; needs all nodes, so no sharding",
    )
    cache_dumper: bool = Field(default=True, description="no effect: see /debug/snapshot")
    cache_dump_dir: str = Field("/tmp", description="no effect")  # noqa: S108 - Volcano's default
    resync_period: Duration = Field(timedelta(), description="no effect: watches are followed and checked")
    minimum_feasible_nodes: int = Field(100, description="no effect: every node is looked at")
    minimum_percentage_nodes_to_find: int = Field(5, description="no effect: every node is looked at")
    percentage_nodes_to_find: int = Field(0, description="no effect: every node is looked at")
    plugins_dir: str = Field("", description="no effect: plugins are found by entry point")
    node_worker_threads: int = Field(20, description="no effect")
    gate_removal_worker_num: int = Field(5, description="no effect")
    estimate_starts: bool = Field(default=True, description="work out between sessions when Jobs that wait are likely to start")
    budget_unknown_after: Duration = Field(
        timedelta(minutes=10), description="how long an amount spent of a queue's budget counts; the recorder renews it"
    )
    enable_pprof: bool = Field(default=False, description="no effect")
    csi_storage: bool = Field(default=True, description="no effect: CSIStorageCapacities always count")
    ignored_provisioners: Names = Field((), description="no effect")
    resource_sync_timeout: Duration = Field(timedelta(seconds=60), description="no effect: scheduling waits until all is listed")
