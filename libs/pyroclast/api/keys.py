"""Well-known keys of labels, annotations, taints and extended resources, by topic.

They are separate from the models, because all programs read them and they belong to no single kind. The comment of a block names
the objects that carry the keys.
"""

from __future__ import annotations

from typing import Final

# Pods: their Job, task and try
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
PARTITION_ID: Final = "volcano.sh/partition-id"
QUEUE_NAME: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
FAILURES_BEFORE: Final = "pyroclast.dev/failures-before"  # how often earlier pods of this index failed; independent pods only

# Commands; only in Pyroclast. Admission writes this annotation at the creation, after it has checked that the user may update the
# target, and replaces or removes what a user wrote; later it does not change. The value is `authorization(uid, action)` of
# api/commands.py. Controllers carry out no Command without it. The JobFlow controller writes it on its own Commands for Jobs.
AUTHORIZED_FOR: Final = "pyroclast.dev/authorized-for"

# What a service says of itself: on its Lease its version, and its problem as `CHECK SINCE TEXT` (empty for none); on each webhook
# configuration, how many of them admission serves.
SERVICE_VERSION: Final = "pyroclast.dev/version"
SERVICE_PROBLEM: Final = "pyroclast.dev/problem"
WEBHOOKS: Final = "pyroclast.dev/webhooks"

# Queues; only in Pyroclast
QUEUE_NAMESPACES: Final = "pyroclast.dev/namespaces"  # the only namespaces that may use the queue, separated by commas
QUEUE_PERSON_LIMITS: Final = "pyroclast.dev/person-limits"  # in JSON, see api/person_limits.py
QUEUE_MINIMUM_RUN_TIME: Final = "pyroclast.dev/minimum-run-time"
QUEUE_BUDGET: Final = "scheduling.volcano.sh/budget"
QUEUE_BUDGET_SPENT: Final = "scheduling.volcano.sh/budget-spent"  # written by the recorder
QUEUE_PAST_USAGE: Final = "scheduling.volcano.sh/past-usage"  # written by the recorder

# Jobs: their origin and their target cluster
SUBMITTED_BY: Final = "pyroclast.dev/submitted-by"
CREATED_BY: Final = "pyroclast.dev/created-by"  # of a pod: the user who created it; written by `pyroclast up` on shared machines
SERVICE_CLASS: Final = "pyroclast.dev/service-class"  # a label: interactive, normal, long, or another class of the queue
DRIVER_ALIVE_UNTIL: Final = "pyroclast.dev/driver-alive-until"  # an RFC 3339 time that a program renews; the Job ends at it
SLURM_NAME: Final = "pyroclast.dev/slurm-name"  # a label: the name of a Job of sbatch or srun without its random end
JOB_TYPE: Final = "volcano.sh/job-type"
CRON_JOB_SCHEDULED_TIMESTAMP: Final = "volcano.sh/cronjob-scheduled-timestamp"
CREATED_BY_JOB_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_JOB_FLOW: Final = "volcano.sh/createdByJobFlow"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"

# Jobs: who suspended them. Pods: when they are ended, and which signal comes before; only in Pyroclast
FLOW_SUSPENDED: Final = "flow.volcano.sh/suspended"  # on a Job that was suspended together with its flow
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"  # a label
SIGNAL_BEFORE: Final = "pyroclast.dev/signal-before"  # such as 60s USR1
MAX_RUN_TIME: Final = "pyroclast.dev/max-run-time"  # after the start of the pod, where the start of the Job is not known yet
ENDS_AT: Final = "pyroclast.dev/ends-at"  # an RFC 3339 time

# Jobs of HyperJobs, and the namespaces that accept them; only in Pyroclast
HYPER_JOB: Final = "training.volcano.sh/hyperjob"
HYPER_JOB_FINALIZER: Final = "training.volcano.sh/hyperjob"  # on a HyperJob until its Jobs in other namespaces are gone
HYPER_JOB_UID: Final = "training.volcano.sh/hyperjob-uid"
HYPER_JOBS_FROM: Final = "training.volcano.sh/hyperjobs-from"

# Namespaces: the scheduler of pods that name none; a label, only in Pyroclast
SCHEDULER_NAME: Final = "pyroclast.dev/scheduler-name"

# JobFlows and JobTemplates
FORCE_DELETE: Final = "flow.volcano.sh/force-delete"
FLOW_FINALIZER: Final = "flow.volcano.sh/jobs"  # on a flow until its Jobs are gone
FLOW_RESUME: Final = "flow.volcano.sh/resume"  # on a failed flow: a new value lets it run again from its failure
FLOW_RETRY: Final = "flow.volcano.sh/retry"  # on a Job of a flow: how often it failed and was created again

# Pods and their owners: group and queue
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
SCHEDULING_QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"  # also the name of a scheduling gate

# Jobs, PodGroups and pods: hints for the scheduler
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
DISRUPTION_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
DISRUPTION_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
SLA_WAITING_TIME_LEGACY: Final = "sla-waiting-time"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
TOPOLOGY_DECISION: Final = "volcano.sh/topology-decision"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
JOB_ALLOCATED_HYPER_NODE: Final = "volcano.sh/job-allocated-hypernode"
NETWORK_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
TASK_TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_TOPOLOGY_TASK_ORDER: Final = "volcano.sh/task-topology-task-order"
RESOURCE_STRATEGY_SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
RESOURCE_STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
RESERVATION_TARGET: Final = "scheduling.volcano.sh/reservation-target"
RESERVATION: Final = "scheduling.volcano.sh/reservation"
RUNNING_ESTIMATE: Final = "scheduling.volcano.sh/running-estimate"
TRACEPARENT: Final = "pyroclast.dev/traceparent"  # the trace of an object, as a W3C traceparent; no decision depends on it
WAITS_FOR_TASK: Final = "scheduling.volcano.sh/waits-for-task"  # why the gang of a PodGroup can never be complete
WAITING: Final = "scheduling.volcano.sh/waiting"  # why a PodGroup waits; no decision depends on it

# PodGroups: the seats of pods that do not exist yet, and their placement
SEATS: Final = "pyroclast.dev/seats"
PLACEMENT: Final = "pyroclast.dev/placement"
CREATED_ON_NODE: Final = "pyroclast.dev/created-on-node"  # of a pod: its node was set by its creator, because of a placement

# Pods of Jobs without a PodGroup: what the PodGroup would contain, as JSON; as a label, "none"
POD_GROUP: Final = "pyroclast.dev/pod-group"

# PodGroups of Jobs: the name of the native PodGroup that shows the same gang
NATIVE_GROUP: Final = "pyroclast.dev/native-group"

# Queues, and groups of nodes
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
NODE_GROUP_NAME: Final = "volcano.sh/nodegroup-name"
NODE_GROUP_RESOURCE_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"

# Admission, topology discovery, sharding
RESOURCE_GROUP: Final = "volcano.sh/resource-group"
NETWORK_TOPOLOGY_SOURCE: Final = "volcano.sh/network-topology-source"
NODE_WARMUP: Final = "node.volcano.sh/warmup"

# Nodes and pods that use idle resources of other pods
COLOCATION: Final = "volcano.sh/colocation"
COLOCATION_CONFIG: Final = "volcano.sh/colocation-config"
COLOCATION_CONFIG_NAME: Final = "volcano.sh/colocation-config-name"
OVERSUBSCRIPTION_CPU: Final = "volcano.sh/oversubscription-cpu"
OVERSUBSCRIPTION_MEMORY: Final = "volcano.sh/oversubscription-memory"

# Devices
GPU_INDEX: Final = "volcano.sh/gpu-index"
GPU_PREDICATE_TIME: Final = "volcano.sh/predicate-time"
GPU_UNHEALTHY_IDS: Final = "volcano.sh/gpu-unhealthy-ids"
VGPU_NODE_REGISTER: Final = "volcano.sh/node-vgpu-register"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
VGPU_IDS_NEW: Final = "volcano.sh/vgpu-ids-new"
DEVICES_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
BIND_TIME: Final = "volcano.sh/bind-time"
BIND_PHASE: Final = "volcano.sh/bind-phase"
VGPU_MODE: Final = "volcano.sh/vgpu-mode"
VGPU_POD_GROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"
VGPU_UUIDS: Final = "volcano.sh/vgpu-use-gpuuuid"
VGPU_FORBIDDEN_UUIDS: Final = "volcano.sh/vgpu-nouse-gpuuuid"
VGPU_TYPES: Final = "nvidia.com/use-gputype"
VGPU_FORBIDDEN_TYPES: Final = "nvidia.com/nouse-gputype"
VGPU_CHOICES: Final = (VGPU_MODE, VGPU_POD_GROUP_POLICY, VGPU_UUIDS, VGPU_FORBIDDEN_UUIDS, VGPU_TYPES, VGPU_FORBIDDEN_TYPES)
"""Annotations by which a pod chooses among virtual GPUs."""
VGPU_NODE_LOCK: Final = "hamivgpu"
HAMI: Final = "hami.io/"
HAMI_NODE_REGISTER: Final = "hami.io/node-register-"
HAMI_NODE: Final = "hami.io/vgpu-node"
HAMI_TIME: Final = "hami.io/vgpu-time"
HAMI_BIND_PHASE: Final = "hami.io/bind-phase"
HAMI_BIND_TIME: Final = "hami.io/bind-time"
HUAWEI: Final = "huawei.com/"
PREDICATE_TIME: Final = "predicate-time"

# Extended resources
GPU_MEMORY: Final = "volcano.sh/gpu-memory"
GPU_NUMBER: Final = "volcano.sh/gpu-number"
VGPU_NUMBER: Final = "volcano.sh/vgpu-number"
VGPU_MEMORY: Final = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES: Final = "volcano.sh/vgpu-cores"
