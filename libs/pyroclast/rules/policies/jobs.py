"""The rules of Job in CEL."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import Final

from pydantic.alias_generators import to_camel

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.api.jobs import JobSpec, TaskSpec
from pyroclast.api.types import JOBS
from pyroclast.rules.jobs import arrays, timing
from pyroclast.rules.jobs.create import NO_TASKS, TOO_FEW_REPLICAS, too_many_pods
from pyroclast.rules.jobs.plugins import TWO_CLAIMS
from pyroclast.rules.jobs.policies import ACTIONS, BOTH, EVENTS, NEITHER, STAR_ALONE, SUCCESS_CODE
from pyroclast.rules.jobs.tasks import ABOVE_REPLICAS, NOT_A_GRAPH, NOT_ALL_PARTITIONS, NOT_LEAST_PARTITIONS
from pyroclast.rules.jobs.update import ABOVE_TOTAL, FIELDS_CHANGED, NEEDS_MINIMUM, STAYS_WITHIN_REPLICAS, TASKS_CHANGED
from pyroclast.rules.jobs.warnings import ROOT_REFUSED
from pyroclast.rules.podgroups import BOTH_TIERS
from pyroclast.rules.policies.model import (
    ONE_TIER,
    MutatingPolicy,
    Mutation,
    ValidatingPolicy,
    Validation,
    is_whole,
    listed,
    matches,
    when,
)
from pyroclast.rules.policies.submitters import CHANGED, SUBMITTER_KEPT, SUBMITTER_WRITTEN

_DURATION: Final = r"[-+]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h))+)"
_LENGTH: Final = _DURATION.removeprefix("[-+]?")
"""The pattern of a duration that is not negative."""
_EVENTS_OF: Final = "({0}.?events.orValue([]) + ({0}.?event.orValue('') != '' ? [{0}.event] : []))"
_P: Final = _EVENTS_OF.format("p")
_Q: Final = _EVENTS_OF.format("q")
_ALL: Final = "variables.policyLists.all(l, {})"
_TASK: Final = "t.?name.orValue('')"
_JOB: Final = "object.metadata.name"
_NO_TIMEOUT: Final = "p.?timeout.orValue('1s')"
_PLUGINS: Final = f"({listed(BUILT_IN)} + [JOB_PLUGINS])"
"""`JOB_PLUGINS` is a placeholder for the names of third-party plugins."""
_CREATE: Final = ("CREATE",)
_UPDATE: Final = ("UPDATE",)


_AFTER: Final = "object.?spec.?after.orValue([])"
_HAS: Final = "(has(object.spec) && has(object.spec.{}))"
_MANAGED: Final = matches(
    "object.?spec.?managedBy.orValue('a/b')",
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/._~%!$&()*+,;=:-]+",
)
_TIME: Final = timing.TIME.replace("\\", "\\\\")


def _is_positive(value: str) -> str:
    return f"({matches(value, _LENGTH)} && {value}.matches('[1-9]'))"


_at_creation: Final = partial(Validation, operations=_CREATE)
_at_update: Final = partial(Validation, operations=_UPDATE)


def _first(condition: str) -> str:
    """Return an expression for the name of the first task for which `condition` (on `t`) is false."""
    return f"variables.tasks.filter(t, !({condition}))[0].?name.orValue('')"


def _of_tasks(
    rule: str, condition: str, *texts: str, names_job: bool = False, operations: tuple[str, ...] = _CREATE
) -> Validation:
    """Return a check of each task. The name of the first faulty task follows the first text, that of the Job the second."""
    names = [_first(condition), *([_JOB] if names_job else [])]
    said = " + ".join(part for text, name in zip_longest(texts, names) for part in (f'"{text}"' if text else "", name) if part)
    return Validation(rule, f"variables.tasks.all(t, {condition})", "".join(texts), said, operations)


_PRODUCT = (
    "!has(t.partitionPolicy) || !has(t.partitionPolicy.totalPartitions) || "
    "t.?replicas.orValue(0) == t.partitionPolicy.totalPartitions * t.partitionPolicy.partitionSize"
)
_MINIMUM = (
    "!has(t.partitionPolicy) || !has(t.minAvailable) || t.partitionPolicy.?minPartitions.orValue(0) <= 0 || "
    "t.minAvailable == t.partitionPolicy.minPartitions * t.partitionPolicy.partitionSize"
)
_PARTS: Final = "t.?array.?indexes.orValue('0').split(',')"
_BEGIN: Final = "int({0}.split('-')[0])"
_END: Final = "int({0}.split(':')[0].split('-')[{0}.contains('-') ? 1 : 0])"
_STEP: Final = "({0}.contains(':') ? int({0}.split(':')[1]) : 1)"
_NUMBER: Final = f"{_PARTS}.map(r, ({_END.format('r')} - {_BEGIN.format('r')}) / {_STEP.format('r')} + 1).sum()"
_AT_ONCE: Final = f"(has(t.array) ? [int(t.array.?maxParallel.orValue(2147483647)), {_NUMBER}].min() : t.?replicas.orValue(0))"
"""How many pods of task `t` may exist at the same time."""
_WITHIN = f"t.?minAvailable.orValue(0) <= {_AT_ONCE}"
_ASCENDING: Final = (
    f"variables.parts.all(p, p.all(i, r, {_BEGIN.format('r')} <= {_END.format('r')} && "
    f"(i == 0 || {_END.format('p[i - 1]')} < {_BEGIN.format('r')})))"
)
_EXTENDS: Final = (
    "n.size() >= o.size() && o.all(j, r, n[j] == r || (j == o.size() - 1 && n[j].startsWith(r.split('-')[0] + '-') && "
    f"{_END.format('n[j]')} >= {_END.format('r')} && (!r.contains('-') || {_STEP.format('n[j]')} == {_STEP.format('r')})))"
)
_CORES = (
    "(c.?resources.?{0}[?'cpu'].hasValue() && "
    + is_whole("c.resources.{0}['cpu']")
    + " && quantity(string(c.resources.{0}['cpu'])).isGreaterThan(quantity('0')))"
)
_SUM = f"variables.tasks.map(t, {_AT_ONCE}).sum()"
_OLD_SUM = f"oldObject.?spec.?tasks.orValue([]).map(t, {_AT_ONCE}).sum()"
_TOO_MANY = too_many_pods(f"' + string({_SUM}) + '", "MAX_PODS")
_FIRST_POD = f"{_JOB} + '-' + {_TASK} + '-0'"
_CHANGEABLE: Final = frozenset({"min_available", "priority_class_name", "suspend", "tasks", "volumes"})
"""Fields of a Job that may change, or have their own rule."""
_CHANGEABLE_OF_TASK: Final = frozenset({"array", "min_available", "replicas"})
_SAME_FIELDS: Final = [to_camel(name) for name in JobSpec.model_fields if name not in _CHANGEABLE]
_SAME_TASK_FIELDS: Final = [to_camel(name) for name in TaskSpec.model_fields if name not in _CHANGEABLE_OF_TASK]

_VALIDATIONS: Final = (
    _at_creation("a Job has at least one task", "variables.tasks.size() > 0", NO_TASKS),
    _of_tasks(
        "names of tasks are unique",
        f"variables.tasks.filter(u, u.?name.orValue('') == {_TASK}).size() == 1",
        "duplicated task name ",
        ";",
    ),
    _of_tasks(
        "`minAvailable` of a task is at most its `replicas`",
        _WITHIN,
        f"{ABOVE_REPLICAS} in task: ",
        ", job: ",
        ";",
        names_job=True,
    ),
    _at_creation(
        "`minAvailable` of the Job is at most the replicas of all tasks together",
        f"{_SUM} >= object.?spec.?minAvailable.orValue(0)",
        f"{TOO_FEW_REPLICAS};",
    ),
    Validation(
        "`networkTopology` of the Job sets at most one of `highestTierAllowed` and `highestTierName`",
        f"!has(object.spec) || {ONE_TIER.format('object.spec')}",
        BOTH_TIERS,
    ),
    Validation(
        "`networkTopology` of a partition sets at most one of `highestTierAllowed` and `highestTierName`",
        f"variables.tasks.all(t, !has(t.partitionPolicy) || {ONE_TIER.format('t.partitionPolicy')})",
        BOTH_TIERS,
    ),
    _of_tasks(
        "`replicas` of a task is the number of partitions times the partition size",
        _PRODUCT,
        f"{NOT_ALL_PARTITIONS} in task: ",
        ", job: ",
        names_job=True,
        operations=(),
    ),
    _of_tasks(
        "`minAvailable` of a task is the minimum number of partitions times the partition size",
        _MINIMUM,
        f"{NOT_LEAST_PARTITIONS} in task: ",
        ", job: ",
        names_job=True,
        operations=(),
    ),
    _at_creation(
        "a policy has at most one of events and exit code", _ALL.format(f"l.all(p, !({_P}.size() > 0 && has(p.exitCode)))"), BOTH
    ),
    _at_creation(
        "a policy has at least one of events and exit code", _ALL.format(f"l.all(p, {_P}.size() > 0 || has(p.exitCode))"), NEITHER
    ),
    _at_creation(
        "a policy names only events that users may use",
        _ALL.format(f"l.all(p, {_P}.all(e, e in {listed(EVENTS)}))"),
        "invalid policy event",
    ),
    _at_creation(
        "a policy names only actions that users may use",
        _ALL.format(f"l.all(p, p.?action.orValue('') in {listed(ACTIONS)})"),
        "invalid policy action",
    ),
    _at_creation(
        "a list of policies names each event once",
        _ALL.format(f"l.all(p, {_P}.all(e, l.filter(q, e in {_Q}).size() == 1))"),
        "duplicate policy event: duplicate event across different policy",
    ),
    _at_creation("exit code 0 has no policy", _ALL.format("l.all(p, p.?exitCode.orValue(1) != 0)"), SUCCESS_CODE),
    _at_creation(
        "a list of policies names each exit code once",
        _ALL.format("l.all(p, !has(p.exitCode) || l.filter(q, has(q.exitCode) && q.exitCode == p.exitCode).size() == 1)"),
        "duplicate exitCode",
    ),
    _at_creation(
        "* is the only event in a list", _ALL.format(f"!l.exists(p, '*' in {_P}) || l.all(p, {_P}.all(e, e == '*'))"), STAR_ALONE
    ),
    _at_creation(
        "timeouts of policies are durations",
        _ALL.format(f"l.all(p, {matches(_NO_TIMEOUT, _DURATION)})"),
        "time: invalid duration in the timeout of a policy",
    ),
    _at_creation(
        "`runningEstimate` is a duration",
        matches("object.?spec.?runningEstimate.orValue('1s')", _DURATION),
        "time: invalid duration in runningEstimate",
    ),
    _at_creation(
        "the durations in `spec.retry` are not negative",
        " && ".join(
            matches(f"object.?spec.?retry.?{field}.orValue('1s')", _LENGTH) for field in ("backoff", "maxBackoff", "resetAfter")
        ),
        "spec.retry: a duration that is not negative is expected, such as 10s",
    ),
    _at_creation("`managedBy` is a path behind a domain", _MANAGED, timing.NOT_A_MANAGER),
    _at_creation(
        "each entry of `after` has one of `job` and `selector`",
        f"{_AFTER}.all(a, (a.?job.orValue('') != '') != has(a.selector))",
        timing.ONE_OF_BOTH,
    ),
    _at_creation(
        "a Job does not run after itself",
        f"{_AFTER}.all(a, a.?job.orValue('') != {_JOB} || a.?kind.orValue('Job') != 'Job')",
        timing.AFTER_ITSELF,
    ),
    _at_creation(
        "`index` of `after` is for Jobs with arrays, by their names",
        f"{_AFTER}.all(a, !has(a.index) || (a.?job.orValue('') != '' && a.?kind.orValue('Job') == 'Job' && "
        "variables.tasks.exists(t, has(t.array))))",
        timing.NEEDS_ARRAYS,
    ),
    _at_creation(
        "the operators of a selector of `after` exist and have the values that they need",
        f"{_AFTER}.all(a, a.?selector.?matchExpressions.orValue([]).all(e, e.operator in ['In', 'NotIn'] "
        "? e.?values.orValue([]).size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && e.?values.orValue([]).size() == 0))",
        "not a valid selector operator, or not the values that it needs",
    ),
    _at_creation(
        "`maxRunTime` is above 0",
        f"!{_HAS.format('maxRunTime')} || {_is_positive('object.spec.maxRunTime')}",
        timing.NOT_POSITIVE,
    ),
    _at_creation(
        "`deadline` is a time, or a duration above 0",
        f"!{_HAS.format('deadline')} || {matches('object.spec.deadline', _TIME)} || {_is_positive('object.spec.deadline')}",
        timing.NO_TIME,
    ),
    _at_creation(
        "`onTimeout` needs `maxRunTime`",
        "!has(object.spec) || !has(object.spec.onTimeout) || has(object.spec.maxRunTime)",
        timing.NO_RUN_TIME,
    ),
    _at_creation(
        "`signalBefore` needs `maxRunTime` or `deadline`",
        f"!{_HAS.format('signalBefore')} || has(object.spec.maxRunTime) || has(object.spec.deadline)",
        timing.NO_END,
    ),
    _at_creation(
        "the signal of `signalBefore` exists",
        f"object.?spec.?signalBefore.?signal.orValue('TERM').replace('SIG', '') in {listed(timing.SIGNALS)}",
        timing.NO_SIGNAL,
    ),
    _at_creation("the queue is not `root`", "object.?spec.?queue.orValue('default') != 'root'", f"{ROOT_REFUSED};"),
    _at_creation(
        "a pod has containers",
        "variables.tasks.all(t, t.?template.?spec.?containers.orValue([]).size() > 0)",
        "template.spec.containers: Required value",
    ),
    _at_creation(
        "a container has an image",
        "variables.tasks.all(t, t.?template.?spec.?containers.orValue([]).all(c, c.?image.orValue('') != ''))",
        "image: Required value",
    ),
    _at_creation(
        "a task with a NUMA policy requests whole CPUs",
        "variables.tasks.all(t, t.?topologyPolicy.orValue('none') in ['', 'none'] || "
        f"t.?template.?spec.?containers.orValue([]).all(c, {_CORES.format('requests')} || "
        f"(!c.?resources.?requests.hasValue() && {_CORES.format('limits')})))",
        "the cpu request isn't an integer",
    ),
    _at_creation(
        "all Job plugins exist",
        f"!has(object.spec) || !has(object.spec.plugins) || object.spec.plugins.all(k, k in {_PLUGINS})",
        "unable to find job plugin",
        f"'unable to find job plugin: ' + object.spec.plugins.map(k, k).filter(k, !(k in {_PLUGINS}))[0] + ';'",
    ),
    _at_creation(
        "mount paths of volumes are unique",
        "variables.volumes.all(v, variables.volumes.filter(w, w.mountPath == v.mountPath).size() == 1)",
        "duplicated mountPath",
        "'duplicated mountPath: ' + variables.volumes.filter(v, "
        "variables.volumes.filter(w, w.mountPath == v.mountPath).size() > 1)[0].mountPath + ';'",
    ),
    _at_creation(
        "a volume sets at most one of `volumeClaim` and `volumeClaimName`",
        "variables.volumes.all(v, !(v.?volumeClaimName.orValue('') != '' && has(v.volumeClaim)))",
        TWO_CLAIMS,
    ),
    _at_creation(
        "`volumeClaimName` is a DNS subdomain",
        "variables.volumes.all(v, v.?volumeClaimName.orValue('') == '' || "
        "!format.dns1123Subdomain().validate(v.volumeClaimName).hasValue())",
        "invalid VolumeClaimName",
    ),
    _at_creation(
        "`dependsOn` names tasks of the Job, and no task depends on itself",
        "variables.tasks.all(t, t.?dependsOn.?name.orValue([]).all(n, "
        f"n != {_TASK} && variables.tasks.exists(u, u.?name.orValue('') == n)))",
        f"{NOT_A_GRAPH};",
    ),
    _at_creation(
        "no two tasks depend on each other",
        "variables.tasks.all(t, t.?dependsOn.?name.orValue([]).all(n, "
        f"!variables.tasks.exists(u, u.?name.orValue('') == n && {_TASK} in u.?dependsOn.?name.orValue([]))))",
        f"{NOT_A_GRAPH};",
    ),
    _at_creation(
        "names of pods are not too long",
        f"variables.tasks.all(t, ({_FIRST_POD}).size() <= 63)",
        "create pod with name validate failed [name part must be no more than 63 bytes];",
    ),
    _at_creation(
        "the name of a job is not too long",
        f"{_JOB}.size() <= 63",
        "create job with name validate failed [name part must be no more than 63 bytes]",
    ),
    Validation(
        "the replicas of all tasks together are at most `custom.max_pods_per_job`",
        f"{_SUM} <= MAX_PODS || (request.operation == 'UPDATE' && {_SUM} <= {_OLD_SUM})",
        too_many_pods("too many", "MAX_PODS"),
        f"'{_TOO_MANY}'",
    ),
    _at_creation(
        "a pod template names no node, unless `custom.allow_job_placement` is set",
        "ALLOWS_PLACEMENT || variables.tasks.all(t, t.?template.?spec.?nodeName.orValue('') == '')",
        "template.spec.nodeName: Forbidden: the scheduler chooses the node",
    ),
    _at_creation(
        "the scheduler is one of the installation, unless `custom.allow_job_placement` is set",
        "ALLOWS_PLACEMENT || (object.?spec.?schedulerName.orValue('') in ['', SCHEDULERS] && variables.tasks.all(t, "
        "t.?template.?spec.?schedulerName.orValue('') in ['', SCHEDULERS]))",
        "schedulerName: Unsupported value: another scheduler than those of the installation",
    ),
    _of_tasks(
        "`minAvailable` of a task stays at most its `replicas`",
        _WITHIN,
        f"{STAYS_WITHIN_REPLICAS} in task: ",
        operations=_UPDATE,
    ),
    _at_update(
        "`minAvailable` of the Job stays at most the replicas of all tasks together",
        f"object.?spec.?minAvailable.orValue(0) <= {_SUM}",
        ABOVE_TOTAL,
    ),
    _at_update(
        "`minAvailable` of the Job stays above 0, unless all replicas are 0",
        f"object.?spec.?minAvailable.orValue(0) > 0 || {_SUM} == 0 || oldObject.?spec.?minAvailable.orValue(0) == 0",
        NEEDS_MINIMUM,
    ),
    Validation("an array has indexes", "variables.tasks.all(t, !has(t.array) || has(t.array.indexes))", arrays.NO_INDEXES),
    Validation("the indexes of an array ascend", _ASCENDING, arrays.NOT_ASCENDING),
    _of_tasks(
        f"an array with `maxParallel` has at most {arrays.MOST_INDEXES} indexes",
        f"!has(t.array) || !has(t.array.maxParallel) || {_NUMBER} <= {arrays.MOST_INDEXES}",
        f"{arrays.TOO_MANY_INDEXES}: task ",
        operations=(),
    ),
    _of_tasks(
        "an array has neither replicas nor partitions",
        "!has(t.array) || (t.?replicas.orValue(0) == 0 && !has(t.partitionPolicy))",
        f"{arrays.NOT_BOTH}: task ",
        operations=(),
    ),
    Validation(
        "`maxFailures` of an array is a number that is not negative, or a per cent",
        "variables.tasks.all(t, !has(t.array) || !has(t.array.maxFailures) || (type(t.array.maxFailures) == int ? "
        f"t.array.maxFailures >= 0 : {matches('t.array.maxFailures', arrays.PER_CENT)}))",
        arrays.NOT_A_LIMIT,
    ),
    _at_update(
        "indexes of an array are only added after the last",
        "variables.tasks.size() != variables.oldParts.size() || variables.oldParts.all(i, o, [variables.parts[i]].all(n, "
        f"{_EXTENDS}))",
        arrays.NOT_EXTENDED,
    ),
    _at_update(
        "a task does not become an array, and an array stays one",
        "variables.tasks.size() != variables.oldParts.size() || variables.tasks.all(i, t, "
        "has(t.array) == has(oldObject.spec.tasks[i].array))",
        FIELDS_CHANGED,
    ),
    _at_update(
        "tasks are neither added nor removed",
        "variables.tasks.size() == oldObject.?spec.?tasks.orValue([]).size()",
        TASKS_CHANGED,
    ),
    _at_update(
        "other fields of the Job are not changed",
        " && ".join(f"object.?spec.?{field} == oldObject.?spec.?{field}" for field in _SAME_FIELDS),
        FIELDS_CHANGED,
    ),
    _at_update(
        "volumes are not changed, except that the controller may set `volumeClaimName`",
        "variables.volumes.size() == oldObject.?spec.?volumes.orValue([]).size() && variables.volumes.all(i, v, "
        "v.mountPath == oldObject.spec.volumes[i].mountPath && v.?volumeClaim == oldObject.spec.volumes[i].?volumeClaim && "
        "(has(v.volumeClaim) || v.?volumeClaimName == oldObject.spec.volumes[i].?volumeClaimName))",
        FIELDS_CHANGED,
    ),
    _at_update(
        "fields of tasks are not changed",
        "variables.tasks.size() != oldObject.?spec.?tasks.orValue([]).size() || variables.tasks.all(i, t, "
        + " && ".join(f"t.?{field} == oldObject.spec.tasks[i].?{field}" for field in _SAME_TASK_FIELDS)
        + ")",
        FIELDS_CHANGED,
    ),
)

JOB_POLICY: Final = ValidatingPolicy(
    "pyroclast-job-validation-policy",
    JOBS,
    ("CREATE", "UPDATE"),
    (*_VALIDATIONS, SUBMITTER_KEPT),
    variables=(
        ("tasks", "object.?spec.?tasks.orValue([])"),
        ("parts", f"variables.tasks.map(t, {_PARTS})"),
        ("oldParts", f"oldObject.?spec.?tasks.orValue([]).map(t, {_PARTS})"),
        ("volumes", "object.?spec.?volumes.orValue([])"),
        ("policyLists", "[object.?spec.?policies.orValue([])] + variables.tasks.map(t, t.?policies.orValue([]))"),
    ),
    conditions=(CHANGED,),
)

_MINIMUM_OF = (
    "(has(t.minAvailable) ? t.minAvailable : has(t.array) ? 1 : t.?partitionPolicy.?minPartitions.orValue(0) > 0 "
    "? t.partitionPolicy.minPartitions * t.partitionPolicy.partitionSize : t.?replicas.orValue(0))"
)


def _each_task(condition: str, key: str, value: str) -> str:
    return (
        f"object.?spec.?tasks.orValue([]).transformList(i, t, {condition}, "
        f'JSONPatch{{op: "add", path: "/spec/tasks/" + string(i) + "/{key}", value: {value}}})'
    )


_FRAMEWORKS = "['tensorflow', 'mpi', 'pytorch', 'ray']"

JOB_DEFAULTS: Final = MutatingPolicy(
    "pyroclast-job-mutation-policy",
    "pyroclast-job-mutation-binding",
    JOBS,
    (
        SUBMITTER_WRITTEN,
        Mutation("queue `default`", when("object.spec.?queue.orValue('') == ''", "/spec/queue", '"default"')),
        Mutation("`schedulerName`", when("object.spec.?schedulerName.orValue('') == ''", "/spec/schedulerName", '"SCHEDULER"')),
        Mutation("`maxRetry` 3", when("object.spec.?maxRetry.orValue(0) == 0", "/spec/maxRetry", "3")),
        Mutation("names of tasks", _each_task("t.?name.orValue('') == ''", "name", "'default' + string(i)")),
        Mutation("`minAvailable` of tasks", _each_task("!has(t.minAvailable)", "minAvailable", _MINIMUM_OF)),
        Mutation("`maxRetry` 3 of tasks", _each_task("t.?maxRetry.orValue(0) == 0", "maxRetry", "3")),
        Mutation(
            "the DNS policy of pods in the host network",
            _each_task(
                "t.?template.?spec.?hostNetwork.orValue(false) && t.?template.?spec.?dnsPolicy.orValue('') == ''",
                "template/spec/dnsPolicy",
                "'ClusterFirstWithHostNet'",
            ),
        ),
        Mutation(
            "`minAvailable` of the Job",
            when(
                "object.spec.?minAvailable.orValue(0) == 0",
                "/spec/minAvailable",
                f"object.spec.?tasks.orValue([]).map(t, {_MINIMUM_OF}).sum()",
            ),
        ),
        Mutation(
            "the Job plugin svc for Jobs with a framework plugin",
            when(
                (
                    "has(object.spec.plugins) && !('svc' in object.spec.plugins) && "
                    f"object.spec.plugins.exists(k, k in {_FRAMEWORKS})"
                ),
                "/spec/plugins/svc",
                "[]",
            ),
        ),
        Mutation(
            "the Job plugin ssh for Jobs with the plugin mpi",
            when(
                "has(object.spec.plugins) && !('ssh' in object.spec.plugins) && 'mpi' in object.spec.plugins",
                "/spec/plugins/ssh",
                "[]",
            ),
        ),
    ),
    conditions=(("has-spec", "has(object.spec)"),),
)
