"""The settings of the scheduler: the flags of Volcano, with their defaults."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from pyroclast.runtime.fields import Duration, Names
from pyroclast.runtime.settings import LeaderElectionSettings


class SchedulerSettings(LeaderElectionSettings):
    """The settings. Flags for features that this scheduler does not have are accepted without effect, as their help says."""

    leader_elect_resource_name: str = Field("volcano", description="name of the Lease")
    kube_api_qps: float = Field(2000.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(2000, ge=0, description="requests to the API server in a burst, above --kube-api-qps")
    scheduler_name: Names = Field(("volcano",), description="schedulerName of the pods that are scheduled; may be repeated")
    scheduler_conf: str = Field("", description="configuration file with actions and plugins; reloaded when it changes")
    disable_default_scheduler_config: bool = Field(
        default=False, description="exit with an error if the file of --scheduler-conf is unusable"
    )
    skip_unknown_plugins: bool = Field(
        default=False,
        description="ignore plugins of the configuration that do not exist, as Volcano does, instead of refusing it",
    )
    schedule_period: Duration = Field(timedelta(seconds=1), description="longest wait for a change before the next session")
    default_queue: str = Field("default", description="queue of PodGroups that have no queue; it is created at start")
    priority_class: bool = Field(default=True, description="watch PriorityClasses and use their values")
    node_selector: Names = Field((), description="label:value; only nodes with one of these labels are used; may be repeated")
    native_workloads: bool = Field(
        default=True, description="schedule the PodGroups of the API group scheduling.k8s.io, if the API server has them"
    )
    scheduler_sharding_mode: Literal["none", "hard", "soft"] = Field(
        "none", description="hard: only nodes of the NodeShard; soft: nodes of the NodeShard first; none: all nodes alike"
    )
    scheduler_sharding_name: str = Field("volcano", description="name of the NodeShard of this scheduler")
    place_before_pods: bool = Field(
        default=False,
        description="place gangs before their pods exist, if their PodGroups request it; not possible with sharding",
    )
    cache_dumper: bool = Field(default=True, description="no effect: see /debug/snapshot")
    cache_dump_dir: str = Field("/tmp", description="no effect")  # noqa: S108 - Volcano's default
    resync_period: Duration = Field(timedelta(), description="no effect: watches report all changes")
    minimum_feasible_nodes: int = Field(100, description="no effect: every node is examined")
    minimum_percentage_nodes_to_find: int = Field(5, description="no effect: every node is examined")
    percentage_nodes_to_find: int = Field(0, description="no effect: every node is examined")
    plugins_dir: str = Field("", description="no effect: plugins are found by entry point")
    node_worker_threads: int = Field(20, description="no effect")
    gate_removal_worker_num: int = Field(5, description="no effect")
    estimate_starts: bool = Field(default=True, description="estimate between sessions when waiting Jobs are likely to start")
    estimate_least_held: float = Field(
        0.6, ge=0, le=1, description="fraction of a queue's last estimates that must have held, or none is shown; 0: show all"
    )
    budget_unknown_after: Duration = Field(
        timedelta(minutes=10), description="age at which the recorded use of a queue's budget counts as unknown"
    )
    enable_pprof: bool = Field(default=False, description="no effect")
    csi_storage: bool = Field(default=True, description="no effect: CSIStorageCapacities are always used")
    ignored_provisioners: Names = Field((), description="no effect")
    resource_sync_timeout: Duration = Field(timedelta(seconds=60), description="no effect: scheduling waits for all lists")
