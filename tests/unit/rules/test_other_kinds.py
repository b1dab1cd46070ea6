"""PodGroups, CronJobs, HyperNodes and pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.resources.cron import CronError, Fields, parse
from pyroclast.rules import cronjobs, hypernodes, podgroups, pods
from pyroclast.rules.regexes import RegexError, check_regex
from pyroclast.rules.resourcegroups import ConfigurationError, read_groups
from tests.unit.rules.builders import QUEUES, job

BOTH_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."
TWO_TIERS = {"highestTierAllowed": 1, "highestTierName": "x"}
ZONES = frozenset({"UTC", "Pacific/Honolulu", "America/New_York"})

POD_GROUPS: dict[str, tuple[dict[str, Any], str]] = {
    "no queue": ({}, ""),
    "an open queue": ({"queue": "default"}, ""),
    "a queue with children": ({"queue": "parent"}, ""),
    "a queue that is not there": ({"queue": "nowhere"}, 'unable to find queue: queue.scheduling.volcano.sh "nowhere" not found'),
    "a closed queue": (
        {"queue": "closed"},
        "can only submit PodGroup to queue with state `Open`, queue `closed` status is `Closed`.",
    ),
    "both tiers": ({"networkTopology": TWO_TIERS}, BOTH_TIERS),
    "both tiers everywhere": (
        {
            "queue": "nowhere",
            "networkTopology": TWO_TIERS,
            "subGroupPolicy": [{"name": "s", "networkTopology": TWO_TIERS}, {"name": "t", "networkTopology": TWO_TIERS}],
        },
        (
            f'unable to find queue: queue.scheduling.volcano.sh "nowhere" not found; {BOTH_TIERS} '
            f"in subGroupPolicy 's': {BOTH_TIERS}"
        ),
    ),
}


@pytest.mark.parametrize(("spec", "message"), POD_GROUPS.values(), ids=POD_GROUPS.keys())
def test_podgroup_with_an_unusable_queue_or_two_tiers_is_refused(spec: dict[str, Any], message: str) -> None:
    assert podgroups.validate_create({"spec": spec}, QUEUES).message == message


def test_podgroup_in_the_default_queue_gets_the_queue_of_its_namespace() -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "team"}
    want = [{"op": "add", "path": "/spec/queue", "value": "team"}]
    assert podgroups.default({"spec": {"queue": "default"}}, annotations) == want
    assert podgroups.default({"spec": {"queue": "own"}}, annotations) == []
    assert podgroups.default({"spec": {"queue": "default"}}, {}) == []


def test_podgroup_update_without_a_queue_restores_the_queue_of_the_namespace() -> None:
    annotations, left_out = {"scheduling.volcano.sh/queue-name": "team"}, {"spec": {"queue": "default"}}
    want = [{"op": "add", "path": "/spec/queue", "value": "team"}]
    assert podgroups.default_update(left_out, {"spec": {"queue": "team"}}, annotations) == want
    assert podgroups.default_update(left_out, left_out, annotations) == []  # it was there before the annotation
    assert podgroups.default_update({"spec": {"queue": "own"}}, {"spec": {"queue": "team"}}, annotations) == []
    assert podgroups.default_update(left_out, {"spec": {"queue": "own"}}, {}) == []


def cron_job(schedule: str = "* * * * *", zone: str | None = None, name: str = "nightly") -> dict[str, Any]:
    spec = {"schedule": schedule, "jobTemplate": {"spec": job()["spec"]}}
    return {"metadata": {"name": name}, "spec": spec if zone is None else {**spec, "timeZone": zone}}


CRON_JOBS: dict[str, tuple[dict[str, Any], str]] = {
    "every minute": (cron_job(), ""),
    "a period": (cron_job("@every 1m"), ""),
    "in Honolulu": (cron_job("*/5 * * * *", "Pacific/Honolulu"), ""),
    "no schedule": (cron_job(""), "schedule is required, but got empty"),
    "a zone in the schedule": (
        cron_job("TZ=UTC 0 20 * * *"),
        "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
    ),
    "no cron expression": (cron_job("error schedule"), "schedule is not a valid cron expression"),
    "an empty zone": (cron_job(zone=""), "timeZone must be nil or non-empty string, got empty string"),
    "a dot": (cron_job(zone="Asia/./Shanghai"), "unknown timeZone invalid timeZone"),
    "a dash": (cron_job(zone="America/-NewYork"), "unknown timeZone invalid timeZone"),
    "a blank": (cron_job(zone="New York"), "unknown timeZone invalid timeZone"),
    "here": (cron_job(zone="Local"), "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"),
    "a slip": (cron_job(zone="Amerrica/New_York"), "invalid timeZone"),
    "two things at once": (
        cron_job("x", "Mars/../Base", "n" * 53),
        (
            "schedule is not a valid cron expression unknown timeZone invalid timeZone; "
            "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)"
        ),
    ),
    "52 characters": (cron_job(name="n" * 52), ""),
    "no name": (
        cron_job(name="-"),
        (
            "invalid cronJob name \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
            "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ),
    ),
}


@pytest.mark.parametrize(("given", "message"), CRON_JOBS.values(), ids=CRON_JOBS.keys())
def test_cron_job_with_an_invalid_schedule_time_zone_or_name_is_refused(given: dict[str, Any], message: str) -> None:
    verdict = cronjobs.validate(given, ZONES)
    assert verdict.message == message
    assert bool(verdict.causes) == bool(message)


def test_cron_job_is_refused_for_an_invalid_template_and_warned_of_one_that_stays() -> None:
    given = cron_job("0 0 31 2 *")
    given["spec"]["jobTemplate"]["spec"]["tasks"][0]["template"] = {}
    assert [cause.path for cause in cronjobs.validate(given, ZONES).causes] == [
        "spec.jobTemplate.spec.tasks[0].template.spec.containers"
    ]
    warnings = cronjobs.validate(given, ZONES, old=given).warnings
    assert warnings[0] == "spec.schedule: 0 0 31 2 * never fires"
    assert "spec.jobTemplate.spec.tasks[0].template.spec.containers: Required value; its jobs will be refused" in warnings


@pytest.mark.parametrize(
    "schedule",
    ["0 8-18/2 1,15 JAN-JUN mon-FRI", "@hourly", "0-0/2 * * * *", "5/10 ? * * ?", ", * * * *", "*-9 * * * *", "+5 * * * *"],
)
def test_valid_cron_schedule_is_parsed(schedule: str) -> None:
    assert isinstance(parse(schedule), Fields)


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * *",
        "0 0 * * 7",
        "61 * * * *",
        "0 0 L * *",
        "* * * * * *",
        "*/0 * * * *",
        "5-3 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "@weekend",
        "@every soon",
        "@Hourly",
        "* * 0 * *",
        "a * * * *",
        "* * * 13 *",
        "- * * * *",
        "99999999999 * * * *",
    ],
)
def test_invalid_cron_schedule_raises_cron_error(schedule: str) -> None:
    with pytest.raises(CronError):
        parse(schedule)


@pytest.mark.parametrize(
    ("schedule", "part"),
    [
        ("5-1 * * * *", "minute 5-1: the range ends before it begins"),
        ("* 25 * * *", "hour 25: numbers go from 0 to 23"),
        ("* * * FOO *", "month FOO: not a number and none of JAN, FEB"),
        ("@every 5", "@every 5: time: missing unit"),
        ("* * * * 1/0", "day of week 1/0: a step is at least 1"),
    ],
)
def test_cron_error_names_the_part_that_is_wrong(schedule: str, part: str) -> None:
    with pytest.raises(CronError) as raised:
        parse(schedule)
    assert str(raised.value).startswith(part)


@pytest.mark.parametrize(
    ("schedule", "fires"),
    [("0 0 29 2 *", True), ("0 0 30 2 *", False), ("0 0 30 2 1", True), (", * * * *", False), ("@yearly", True)],
)
def test_cron_schedule_can_fire_only_if_its_date_exists(schedule: str, fires: bool) -> None:
    fields = parse(schedule)
    assert isinstance(fields, Fields)
    assert fields.can_fire is fires


def member(pattern: str) -> dict[str, Any]:
    return {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}


def test_hypernode_without_members_or_with_an_invalid_pattern_is_refused() -> None:
    assert hypernodes.validate({"spec": {"tier": 1, "members": [member("^node-[0-9]+$")]}}).allowed
    absent = hypernodes.validate({"spec": {"tier": 1}})
    assert absent.message == "[].spec.members: Invalid value: null: member must have at least one member"
    broken = hypernodes.validate({"spec": {"members": [member("ok"), member("a(b"), member("(?=x)")]}})
    path = "[].spec.members.selector.regexMatch.pattern: Invalid value:"
    compiled = "member regexMatch pattern is invalid: error parsing regexp:"
    assert broken.message == (
        f'[{path} "a(b": {compiled} missing closing ): `a(b`, '
        f'{path} "(?=x)": {compiled} invalid or unsupported Perl syntax: `(?=`]'
    )
    assert [cause.path for cause in broken.causes] == [
        "spec.members[1].selector.regexMatch.pattern",
        "spec.members[2].selector.regexMatch.pattern",
    ]


@pytest.mark.parametrize(
    "pattern",
    ["", "a|b", "[]a]", "[^]]", "(?i)x", "(?P<n>a)+?", "a{2,3}?", "{", "a{,3}", "[[:alpha:]-z]", "é", r"\pL\x{41}\Qa(\E"],
)  # fmt: skip
def test_go_regular_expression_is_accepted(pattern: str) -> None:
    check_regex(pattern)


EXPRESSIONS = {
    "a)": "unexpected ): `a)`",
    "[a": "missing closing ]: `[a`",
    "[z-a]": "invalid character class range: `z-a`",
    "[[:foo:]]": "invalid character class range: `[:foo:]`",
    "*": "missing argument to repetition operator: `*`",
    "a**": "invalid nested repetition operator: `**`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "a{3,1}": "invalid repeat count: `{3,1}`",
    r"\8": r"invalid escape sequence: `\8`",
    r"\x4": r"invalid escape sequence: `\x4`",
    r"\p{}": r"invalid character class range: `\p{}`",
    "\\": "trailing backslash at end of expression: ``",
    r"[a-\d]": r"invalid escape sequence: `\d`",
    r"[a-\pL]": r"invalid escape sequence: `\p`",
    "(?P<": "invalid or unsupported Perl syntax: `(?P`",
    "(?--=": "invalid or unsupported Perl syntax: `(?--`",
    "(?P=n)": "invalid or unsupported Perl syntax: `(?P`",
    "(?<=a)": "invalid named capture: `(?<=a)`",
    "(?<n": "invalid named capture: `(?<n`",
    "(?P<n-m>a)": "invalid named capture: `(?P<n-m>`",
}


@pytest.mark.parametrize(("pattern", "message"), EXPRESSIONS.items())
def test_invalid_regular_expression_raises_regex_error_with_the_message_of_go(pattern: str, message: str) -> None:
    with pytest.raises(RegexError) as error:
        check_regex(pattern)
    assert str(error.value) == message


MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
BUDGETS: dict[str, tuple[dict[str, str], str]] = {
    "a count": ({MIN: "2"}, ""),
    "a share": ({MAX: "50%"}, ""),
    "no count": ({MIN: "0"}, f'invalid value <"0"> for {MIN}, it must be a positive integer'),
    "a word": ({MIN: "x"}, f'invalid value strconv.Atoi: parsing "x": invalid syntax for {MIN}'),
    "all": ({MAX: "100%"}, f'invalid value <"100%"> for {MAX}, it must be a valid percentage which between 1% ~ 99%'),
    "nothing": ({MAX: "0%"}, f'invalid value <"0%"> for {MAX}, it must be a valid percentage which between 1% ~ 99%'),
    "the sign first": ({MIN: "%50"}, f'invalid value <"%50"> for {MIN}, it must be a valid percentage which between 1% ~ 99%'),
    "two signs": ({MIN: "5%0%"}, f'invalid value <"5%0%"> for {MIN}, it must be a valid percentage which between 1% ~ 99%'),
    "too many": (
        {MIN: "3000000000"},
        f'invalid value <"3000000000"> for {MIN}, it must be a valid percentage which between 1% ~ 99%',
    ),
    "too few": (
        {MIN: "-3000000000"},
        f'invalid value <"-3000000000"> for {MIN}, it must be a valid percentage which between 1% ~ 99%',
    ),
    "both": ({MIN: "1", MAX: "1"}, f"not allow configure multiple annotations <[{MIN} {MAX}]> at same time"),
}


@pytest.mark.parametrize(("annotations", "message"), BUDGETS.values(), ids=BUDGETS.keys())
def test_invalid_disruption_budget_annotation_is_refused_only_for_pods_of_served_schedulers(
    annotations: dict[str, str], message: str
) -> None:
    given = {"metadata": {"annotations": annotations}, "spec": {"schedulerName": "volcano"}}
    assert pods.validate_create(given, ("volcano",)).message == message
    assert pods.validate_create(given, ("other",)).allowed


CONFIGURATION = {
    "resourceGroups": [
        {
            "resourceGroup": "management",
            "object": {"key": "namespace", "value": ["mng-ns-1"]},
            "schedulerName": "default-scheduler",
            "labels": {"zone": "edge"},
            "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoExecute", "tolerationseconds": 60}],
            "affinity": '{"nodeAffinity":{}}',
        },
        {
            "resourceGroup": "cpu",
            "object": {"key": "annotation", "value": ["team/tier: cpu"]},
            "schedulerName": "volcano",
            "labels": {"a": 1},
        },
        {"resourceGroup": "gpu", "schedulerName": "volcano", "labels": {"accel": "gpu"}},
        {"resourceGroup": "odd", "object": {"key": "label", "value": ["x"]}, "schedulerName": "never"},
    ]
}


def test_pod_gets_node_selector_tolerations_affinity_and_scheduler_of_its_resource_group() -> None:
    groups = read_groups(CONFIGURATION)

    def paths(namespace: str = "n", spec: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
        given = {"metadata": {"annotations": annotations}, "spec": spec or {}}
        return {operation["path"]: operation["value"] for operation in pods.default(given, namespace=namespace, groups=groups)}

    toleration = {"key": "edge", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    assert list(paths("mng-ns-1")) == ["/spec/nodeSelector", "/spec/affinity", "/spec/tolerations", "/spec/schedulerName"]
    assert paths("mng-ns-1", {"tolerations": [{"key": "k"}]})["/spec/tolerations"] == [{"key": "k"}, toleration]
    for own in ({}, {"podAffinity": {}}):
        assert "/spec/affinity" not in paths("mng-ns-1", {"affinity": own})
    assert paths(**{"team/tier": "cpu"}) == {"/spec/nodeSelector": {"a": "1"}, "/spec/schedulerName": "volcano"}
    assert paths(spec={"nodeSelector": {"accel": "x", "b": "c"}}, **{"volcano.sh/resource-group": "gpu"})[
        "/spec/nodeSelector"
    ] == {
        "accel": "gpu",
        "b": "c",
    }
    assert paths() == {}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "must be a mapping"),
        ({"resourceGroups": {}}, ""),
        ({"resourceGroups": [1]}, "must be a list of mappings"),
        ({"resourceGroups": [{"labels": "x"}]}, "resourceGroups[0].labels must be a mapping"),
        ({"resourceGroups": [{"affinity": "{"}]}, "resourceGroups[0].affinity is not JSON"),
        ({"resourceGroups": [{"affinity": "[]"}]}, "resourceGroups[0].affinity must be a JSON object"),
    ],
)
def test_invalid_resource_group_configuration_is_refused_and_an_empty_one_has_no_groups(document: Any, words: str) -> None:
    if not words:
        assert read_groups(document) == ()
        return
    with pytest.raises(ConfigurationError, match=words.replace("[", r"\[").replace("]", r"\]")):
        read_groups(document)


def test_pod_with_the_queue_allocation_gate_annotation_gets_one_scheduling_gate() -> None:
    gate = {"name": "scheduling.volcano.sh/queue-allocation-gate"}
    asking = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-allocation-gate": "true"}}, "spec": {}}
    whole = [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]
    assert pods.default(asking, namespace="n", queue_gates=True) == whole
    assert pods.default(asking, namespace="n") == []
    more = {**asking, "spec": {"schedulingGates": [{"name": "x"}]}}
    assert pods.default(more, namespace="n", queue_gates=True) == [
        {"op": "add", "path": "/spec/schedulingGates/-", "value": gate}
    ]
    assert pods.default({**asking, "spec": {"schedulingGates": [gate]}}, namespace="n", queue_gates=True) == []
