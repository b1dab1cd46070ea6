"""The rules in CEL of all kinds except Job."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyroclast.api.types import CRON_JOBS, HYPER_JOBS, HYPER_NODES, JOB_FLOWS, POD_GROUPS, PODS, QUEUES
from pyroclast.rules.podgroups import BOTH_TIERS, NOT_NEGATIVE, ROOT_GROUP_REFUSED
from pyroclast.rules.podspecs.requirements import COUNTED
from pyroclast.rules.policies.model import (
    ONE_TIER,
    MutatingPolicy,
    Mutation,
    ValidatingPolicy,
    Validation,
    is_whole,
    listed,
    when,
)
from pyroclast.rules.policies.submitters import CHANGED, RECORDED_KEPT, SUBMITTER_KEPT, SUBMITTER_WRITTEN

_WRITE: Final = ("CREATE", "UPDATE")
_HIERARCHY: Final = "object.metadata.?annotations[?'volcano.sh/hierarchy'].orValue('')"
_WEIGHTS: Final = "object.metadata.?annotations[?'volcano.sh/hierarchy-weights'].orValue('')"
_COUNTED: Final = f"r in {listed(COUNTED)} || (r.contains('/') && !r.contains('kubernetes.io/'))"


def _lists(check: str) -> str:
    """Return `check` applied to each resource list of a queue, in place of `{0}`."""
    parts = []
    for path in ("capability", "deserved", "guarantee.resource"):
        found = f"object.?spec.?{path.replace('.', '.?')}.hasValue()"
        parts.append(f"(!{found} || object.spec.{path}.all(r, {check.format(f'object.spec.{path}')}))")
    return " && ".join(parts)


_AMOUNT: Final = "quantity(string({0}[r]))"

_written: Final = partial(Validation, operations=_WRITE)
_QUEUES: Final = ValidatingPolicy(
    "pyroclast-queue-validation-policy",
    QUEUES,
    ("CREATE", "UPDATE", "DELETE"),
    (
        _written(
            "amounts of resources are not negative",
            _lists(f"!{_AMOUNT}.isLessThan(quantity('0'))"),
            "must be greater than or equal to 0",
        ),
        _written(
            "amounts of countable resources are whole numbers",
            _lists(f"!({_COUNTED}) || {is_whole('{0}[r]')}"),
            "must be an integer",
        ),
        _written(
            "`deserved` is at least `guarantee`",
            (
                "!object.?spec.?guarantee.?resource.hasValue() || object.spec.guarantee.resource.all(r, "
                "object.?spec.?deserved[?r].hasValue() && !quantity(string(object.spec.deserved[r]))"
                ".isLessThan(quantity(string(object.spec.guarantee.resource[r]))))"
            ),
            "deserved must be >= guarantee",
        ),
        _written(
            "`deserved` is at most `capability`",
            (
                "!object.?spec.?deserved.hasValue() || object.spec.deserved.all(r, !object.?spec.?capability[?r].hasValue() || "
                "!quantity(string(object.spec.deserved[r])).isGreaterThan(quantity(string(object.spec.capability[r]))))"
            ),
            "deserved must be <= capability",
        ),
        _written(
            "`volcano.sh/hierarchy` and `volcano.sh/hierarchy-weights` have the same length",
            f"({_HIERARCHY} == '' && {_WEIGHTS} == '') || {_HIERARCHY}.split('/').size() == {_WEIGHTS}.split('/').size()",
            "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights",
        ),
        _written(
            "weights in `volcano.sh/hierarchy-weights` are numbers above 0",
            (
                f"({_HIERARCHY} == '' && {_WEIGHTS} == '') || {_WEIGHTS}.split('/').all(w, "
                "w.matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?$') && double(w) > 0.0)"
            ),
            "weights in volcano.sh/hierarchy-weights must be larger than 0",
        ),
        _written(
            "a queue is not its own parent",
            "object.?spec.?parent.orValue('') != object.metadata.name",
            "queue cannot use itself as parent",
            "'queue ' + object.metadata.name + ' cannot use itself as parent'",
        ),
        Validation(
            "the resources of the queue `root` are not changed",
            (
                "object.metadata.name != 'root' || (object.?spec.?capability == oldObject.?spec.?capability && "
                "object.?spec.?deserved == oldObject.?spec.?deserved && object.?spec.?guarantee.?resource == "
                "oldObject.?spec.?guarantee.?resource)"
            ),
            "root queue's resource attributes (capability, deserved, guarantee) cannot be modified",
            operations=("UPDATE",),
        ),
        *RECORDED_KEPT,
        Validation(
            "the queue `default` is not deleted",
            "request.name != 'default'",
            "`default` queue can not be deleted",
            operations=("DELETE",),
        ),
        Validation(
            "the queue `root` is not deleted", "request.name != 'root'", "`root` queue can not be deleted", operations=("DELETE",)
        ),
    ),
)

_POD_GROUPS: Final = ValidatingPolicy(
    "pyroclast-podgroup-validation-policy",
    POD_GROUPS,
    _WRITE,
    (
        SUBMITTER_KEPT,
        Validation(
            "the queue is not `root`",
            "object.?spec.?queue.orValue('') != 'root' || (request.operation == 'UPDATE' && oldObject.?spec.?queue.orValue('') "
            "== 'root')",
            ROOT_GROUP_REFUSED,
        ),
        Validation(
            "`minMember`, `minTaskMember` and `minResources` are not negative",
            "object.?spec.?minMember.orValue(0) >= 0 && object.?spec.?minTaskMember.orValue({}).all(k, "
            "object.spec.minTaskMember[k] >= 0) && object.?spec.?minResources.orValue({}).all(r, "
            "!quantity(string(object.spec.minResources[r])).isLessThan(quantity('0')))",
            NOT_NEGATIVE,
        ),
        Validation(
            "`networkTopology` sets at most one of `highestTierAllowed` and `highestTierName`",
            f"!has(object.spec) || {ONE_TIER.format('object.spec')}",
            BOTH_TIERS + ".",
        ),
        Validation(
            "`networkTopology` of a subgroup sets at most one of `highestTierAllowed` and `highestTierName`",
            f"object.?spec.?subGroupPolicy.orValue([]).all(s, {ONE_TIER.format('s')})",
            BOTH_TIERS + ".",
        ),
    ),
    conditions=(CHANGED,),
)

_MIN: Final = "volcano.sh/jdb-min-available"
_MAX: Final = "volcano.sh/jdb-max-unavailable"
_ONE_BUDGET: Final = (
    "not allow configure multiple annotations <[volcano.sh/jdb-min-available volcano.sh/jdb-max-unavailable]> at same time"
)


def _budget(key: str) -> Validation:
    value = f"object.metadata.annotations['{key}']"
    return Validation(
        f"{key} is a count or a percentage",
        f"!object.metadata.?annotations[?'{key}'].hasValue() || {value}.matches('^[+]?0*([1-9][0-9]{{0,8}}|[1-9][0-9]?%)$')",
        f"invalid value for {key}, it must be a positive integer or a valid percentage which between 1% ~ 99%",
    )


_PODS: Final = ValidatingPolicy(
    "pyroclast-pod-validation-policy",
    PODS,
    ("CREATE",),
    (
        _budget(_MIN),
        _budget(_MAX),
        Validation(
            "a pod has at most one of both annotations for disruption budgets",
            f"!object.metadata.?annotations[?'{_MIN}'].hasValue() || !object.metadata.?annotations[?'{_MAX}'].hasValue()",
            _ONE_BUDGET,
        ),
    ),
    conditions=(("our-scheduler", "object.spec.?schedulerName.orValue('') in [SCHEDULERS]"),),
)

_HYPER_JOBS: Final = ValidatingPolicy(
    "pyroclast-hyperjob-validation-policy", HYPER_JOBS, _WRITE, (SUBMITTER_KEPT,), conditions=(CHANGED,)
)

_HYPER_NODES: Final = ValidatingPolicy(
    "pyroclast-hypernode-validation-policy",
    HYPER_NODES,
    _WRITE,
    (
        Validation(
            "a HyperNode has members",
            "object.?spec.?members.orValue([]).size() > 0",
            "member must have at least one member",
        ),
    ),
    conditions=(CHANGED,),
)

_FLOWS: Final = ValidatingPolicy(
    "pyroclast-jobflow-validation-policy",
    JOB_FLOWS,
    _WRITE,
    (
        SUBMITTER_KEPT,
        Validation(
            "targets are entries of the flow",
            "variables.flows.all(f, f.?dependsOn.?targets.orValue([]).all(n, variables.flows.exists(g, g.name == n)))",
            "jobflow Flow is not DAG: vertex is not defined",
        ),
        Validation(
            "no entry depends on itself",
            "variables.flows.all(f, !(f.name in f.?dependsOn.?targets.orValue([])))",
            "jobflow Flow is not DAG",
        ),
        Validation(
            "no two entries depend on each other",
            (
                "variables.flows.all(f, f.?dependsOn.?targets.orValue([]).all(n, "
                "!variables.flows.exists(g, g.name == n && f.name in g.?dependsOn.?targets.orValue([]))))"
            ),
            "jobflow Flow is not DAG",
        ),
        Validation(
            "entries with the same name are equal",
            "variables.flows.all(f, variables.flows.all(g, g.name != f.name || g == f))",
            "two flows have the same name, but differ",
        ),
    ),
    variables=(("flows", "object.?spec.?flows.orValue([])"),),
    conditions=(CHANGED,),
)

_ZONE: Final = "object.?spec.?timeZone.orValue('UTC')"
_CRON_JOBS: Final = ValidatingPolicy(
    "pyroclast-cronjob-validation-policy",
    CRON_JOBS,
    _WRITE,
    (
        SUBMITTER_KEPT,
        Validation("`schedule` is not empty", "object.?spec.?schedule.orValue('') != ''", "schedule is required, but got empty"),
        Validation(
            "`schedule` names no time zone",
            "!object.?spec.?schedule.orValue('').contains('TZ')",
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
        ),
        Validation(
            "`schedule` has five fields or is a descriptor",
            (
                "object.?spec.?schedule.orValue('') == '' || object.spec.schedule.contains('TZ') || object.spec.schedule.matches("
                "'^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every .+|"
                "\\\\s*[0-9A-Za-z*?,/+-]+(\\\\s+[0-9A-Za-z*?,/+-]+){4}\\\\s*)$')"
            ),
            "schedule is not a valid cron expression",
        ),
        Validation("`timeZone` is not empty", f"{_ZONE} != ''", "timeZone must be nil or non-empty string, got empty string"),
        Validation(
            "`timeZone` has the form of a time zone name",
            (
                f"{_ZONE} == '' || {_ZONE}.split('/').all(z, z != '.' && z != '..' && "
                "z.matches('^[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}$'))"
            ),
            "unknown timeZone",
        ),
        Validation(
            "`timeZone` is not `Local`",
            f"{_ZONE}.lowerAscii() != 'local'",
            "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
        ),
        Validation(
            "the name of the CronJob is short enough for the names of its Jobs",
            "object.metadata.name.size() <= 52",
            "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
        ),
    ),
    conditions=(CHANGED,),
)

OTHER_POLICIES: Final = (_CRON_JOBS, _QUEUES, _POD_GROUPS, _PODS, _HYPER_JOBS, _HYPER_NODES, _FLOWS)

_NAMESPACE_QUEUE: Final = "namespaceObject.metadata.?annotations[?'scheduling.volcano.sh/queue-name']"
_ROOTED: Final = f"{_HIERARCHY} != '' && {_WEIGHTS} != '' && {_HIERARCHY}.split('/')[0] != 'root'"

OTHER_DEFAULTS: Final = (
    MutatingPolicy("pyroclast-cronjob-mutation-policy", "volcano-cronjob-mutation-binding", CRON_JOBS, (SUBMITTER_WRITTEN,)),
    MutatingPolicy("pyroclast-hyperjob-mutation-policy", "pyroclast-hyperjob-mutation-binding", HYPER_JOBS, (SUBMITTER_WRITTEN,)),
    MutatingPolicy("pyroclast-jobflow-mutation-policy", "volcano-jobflow-mutation-binding", JOB_FLOWS, (SUBMITTER_WRITTEN,)),
    MutatingPolicy(
        "pyroclast-queue-mutation-policy",
        "pyroclast-queue-mutation-binding",
        QUEUES,
        (
            Mutation(
                "a `spec` with `reclaimable` and `weight` 1",
                when("!has(object.spec)", "/spec", '{"reclaimable": dyn(true), "weight": dyn(1)}'),
            ),
            Mutation(
                "a `volcano.sh/hierarchy` that begins with `root`",
                (
                    f'{_ROOTED} ? [JSONPatch{{op: "add", path: "/metadata/annotations/volcano.sh~1hierarchy", '
                    f'value: "root/" + {_HIERARCHY}}}, JSONPatch{{op: "add", '
                    f'path: "/metadata/annotations/volcano.sh~1hierarchy-weights", value: "1/" + {_WEIGHTS}}}] : []'
                ),
            ),
            Mutation("`reclaimable`", when("!has(object.spec.reclaimable)", "/spec/reclaimable", "true")),
            Mutation("`weight` 1", when("object.spec.?weight.orValue(0) == 0", "/spec/weight", "1")),
        ),
    ),
    MutatingPolicy(
        "pyroclast-podgroup-mutation-policy",
        "pyroclast-podgroup-mutation-binding",
        POD_GROUPS,
        (
            Mutation(
                "the queue that the annotation of the namespace names",
                when(f"{_NAMESPACE_QUEUE}.hasValue()", "/spec/queue", f"{_NAMESPACE_QUEUE}.value()"),
            ),
        ),
        conditions=(("has-no-queue-of-its-own", "object.?spec.?queue.orValue('') == 'default'"),),
    ),
)
