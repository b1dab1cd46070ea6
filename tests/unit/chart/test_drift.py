"""What went wrong between the original's chart and its programs: flags out of reach, other defaults, labels left out."""

import pytest

from pyroclast.kube.lease.shards import ShardLeases
from pyroclast.runtime.settings import parse
from tests.unit.chart import values_schema
from tests.unit.chart.test_chart import KEYS, PROGRAMS, WRITERS, container_of, of_kind, pod_of, rendered, settings_of

ALL_FLAGS = [
    "webhook.url=https://a.example.org",
    "webhook.clientCaSecret=authority",
    "webhook.clientNames=a",
    "custom.bind_address=$(POD_IP)",
    "custom.scheduler_name=a",
    "custom.board_session_secret=a",
    "custom.board_trace_url=http://b/{trace}",
    "custom.recorder_notifications_secret=a",
    "custom.board_login=proxy",
    "custom.board_tls_secret=b",
    "custom.board_proxy_ca_secret=c",
    "nativeWorkloads.enabled=false",
    "nativeWorkloads.publish=true",
    "custom.job_plugins=a",
    "custom.otel_endpoint=http://b",
    "custom.admission_feature_gates=A=true",
    "custom.scheduler_feature_gates=A=true",
    "custom.ignored_provisioners=a",
    "custom.scheduler_sharding_mode=soft",
    "custom.scheduler_sharding_name=a",
    "custom.scheduler_skip_unknown_plugins=true",
    "custom.controller_shards=2",
    "custom.controller_enabled_controllers=*",
    "custom.jobflow_shards=2",
    "custom.sharding_configmap_data=schedulerConfigs: []",
]
UNREACHED = {
    "controllers": {"controller-configmap", "lock-object-namespace"},
    "jobflow": {"lock-object-namespace"},
    "recorder": {"leader-elect-shards", "leader-elect-wait-for", "leader-elect-wait-for-app", "lock-object-namespace"},
    "scheduler": {"leader-elect-shards", "lock-object-namespace"},
}
"""The ConfigMap has the release's name, the namespace of Leases its newer flag; schedulers divide work as members, and one
recorder does it all, in which Volcano has no part."""
OF_A_POD = {
    "log_format", "enable_healthz", "enable_metrics", "admission_conf", "webhook_namespace", "webhook_service_name",
    "webhook_url", "leader_elect_resource_namespace", "scheduler_conf", "database_url",
    "lease_namespace", "recorder_url", "recorder_token_file", "scheduler_url", "scheduler_token_file", "leader_elect_wait_for",
    "leader_elect_wait_for_app",
    "in_process_webhooks", "shutdown_delay_duration", "runbooks", "place_before_pods",
}  # fmt: skip
"""Settings that are another in a pod: it has files, a namespace and an account, is probed, and its log is read by machines.

The programs alone place no gang before its pods, as the policy that protects placements comes with the chart."""


def flags_of(documents, program):
    return {argument.removeprefix("--").partition("=")[0] for argument in container_of(documents, program)["args"]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_flag_can_be_set_by_a_chart_value(helm, program):
    key = KEYS[program]
    switches = ("custom.place_before_pods=true", "custom.one_pod_without_group=true")
    secret = rendered(helm, "webhook.certificates=secret", *switches)
    given = flags_of(rendered(helm, *ALL_FLAGS), program) | flags_of(secret, program) | {"v", "log-level"}
    there_are = {name.replace("_", "-") for name in values_schema.SETTINGS[key].model_fields}
    assert there_are - given - set(values_schema.extra_flags(key)) == UNREACHED.get(program, set())


@pytest.mark.parametrize("program", PROGRAMS)
def test_flags_set_by_a_chart_value_are_not_accepted_as_extra_args(helm, program):
    """What no value of its own sets is a further flag; what the chart sets is not."""
    assert not flags_of(rendered(helm, *ALL_FLAGS), program) & set(values_schema.extra_flags(KEYS[program]))


@pytest.mark.parametrize("program", PROGRAMS)
def test_chart_settings_equal_program_defaults_except_for_pod_specific_settings(helm, program):
    settings = values_schema.SETTINGS[KEYS[program]]
    ours = settings_of(rendered(helm), program)
    plain = parse(settings, ["--webhook-url=https://a"] if program == "admission" else [], program)
    differ = {name for name in settings.model_fields if getattr(ours, name) != getattr(plain, name)}
    if program == "jobflow":  # it passes over the names of others
        assert set(plain.controllers) <= set(ours.controllers)
        differ -= {"controllers"}
    assert differ <= OF_A_POD


@pytest.mark.parametrize("program", PROGRAMS)
def test_container_arguments_are_all_flags(helm, program):
    assert all(argument.startswith("-") for argument in container_of(rendered(helm, *ALL_FLAGS), program)["args"])


def test_common_labels_are_on_every_object_but_crds(helm):
    documents = rendered(
        helm,
        "custom.common_labels.team=a",
        "custom.vap_enable=true",
        "custom.map_enable=true",
        "custom.namespace_scheduler_enable=true",
        "custom.metrics_enable=true",
        "networkPolicy.enabled=true",
        "custom.admission_replicas=2",
        "custom.priority_classes[0].name=a",
        "custom.priority_classes[0].value=1",
    )
    bare = [
        (each["kind"], each["metadata"]["name"])
        for each in documents
        if each["metadata"].get("labels", {}).get("team") != "a" and each["kind"] != "CustomResourceDefinition"
    ]
    assert bare == []
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in documents if each["kind"] in {"Deployment", "StatefulSet"}]
    assert all(labels["team"] == "a" for labels in pods)


def test_address_families_are_on_every_service(helm):
    documents = rendered(helm, "service.ipFamilyPolicy=PreferDualStack", "service.ipFamilies={IPv4,IPv6}")
    found = [(each["spec"]["ipFamilyPolicy"], each["spec"]["ipFamilies"]) for each in documents if each["kind"] == "Service"]
    assert found == [("PreferDualStack", ["IPv4", "IPv6"])] * len(PROGRAMS)


def test_every_service_port_targets_a_container_port(helm):
    documents = rendered(helm)
    for name, service in of_kind(documents, "Service").items():
        container = container_of(documents, name.removeprefix("pyroclast-").removesuffix("-service"))
        named = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


def test_webhooks_have_a_name_each(helm):
    documents = rendered(helm)
    names = [
        hook["name"]
        for each in documents
        if each["kind"] in {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
        for hook in each["webhooks"]
    ]
    assert len(names) == len(set(names)) > 10


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("elects", [True, False])
def test_deployment_is_recreated_on_upgrade_when_the_program_must_run_alone(helm, program, elects):
    documents = rendered(helm, f"custom.leader_elect_enable={str(elects).lower()}")
    strategy = of_kind(documents, "Deployment")[f"pyroclast-{program}"]["spec"].get("strategy")
    ends_first = program == "recorder" or not (elects or program in {"admission", "board"})  # a SQLite file has one writer
    assert strategy == ({"type": "Recreate"} if ends_first else None)


def test_bind_address_applies_to_webhooks_and_health_endpoints(helm):
    settings = settings_of(rendered(helm, "custom.bind_address=[::1]"), "admission")
    assert (settings.listen_address, settings.healthz_address) == ("::1", "[::1]:11251")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("custom.controller_shards=2", "custom.jobflow_shards=3"),
        ("custom.scheduler_members=2",),
        ("custom.leader_elect_enable=false",),
    ],
)
def test_helm_uninstall_deletes_the_leases_of_the_programs(helm, options):
    """Those that the programs write by their flags, and no other."""
    documents = rendered(helm, *options)
    for program in set(WRITERS) - {"admission"}:
        settings = settings_of(documents, program)
        variables = {each["name"]: each.get("value") for each in container_of(documents, program)["env"]}
        name, members = settings.leader_elect_resource_name, int(variables.get("SCHEDULER_NUM", "0"))
        written = {f"{name}-{number}" for number in range(members)} or set(_leases(name, settings.leader_elect_shards))
        gone = {other for other in _deleted_afterwards(documents, "Lease") if other.startswith(name)}
        assert gone >= written, "also where election was on before"


def _leases(name, shards):
    return [lease.key.name for lease in ShardLeases(None, name, "a", "me", shards=shards)._leases]


def _deleted_afterwards(documents, kind):
    return {
        each["metadata"]["name"]
        for each in documents
        if each["kind"] == kind
        and each["metadata"].get("annotations", {}).get("helm.sh/hook") == "post-delete"
        and {"before-hook-creation", "hook-succeeded"}
        <= set(each["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(","))
    }


def test_helm_uninstall_deletes_only_the_secret_that_admission_writes(helm):
    assert _deleted_afterwards(rendered(helm, "basic.admission_secret_name=a"), "Secret") == {"a"}
    assert not _deleted_afterwards(rendered(helm, "webhook.certificates=secret"), "Secret")
    assert not _deleted_afterwards(rendered(helm, "custom.admission_enable=false", "custom.vap_enable=true"), "Secret")


def test_priority_classes_and_pod_priority_follow_the_values(helm):
    options = ["custom.priority_classes[0].name=high", "custom.priority_classes[0].value=10000000", "custom.priority_class_name="]
    documents = rendered(helm, *options, "custom.priority_classes[0].preemptionPolicy=Never")
    (found,) = of_kind(documents, "PriorityClass").values()
    assert (found["value"], found["preemptionPolicy"]) == (10_000_000, "Never")
    assert "priorityClassName" not in pod_of(documents, "scheduler")
    usual = pod_of(rendered(helm), "scheduler")
    assert usual["priorityClassName"] == "system-cluster-critical"
    assert not of_kind(rendered(helm), "PriorityClass")


OF_JOBS = {"/jobs/mutate", "/jobs/validate"}
OF_GROUPS = {"/podgroups/mutate", "/podgroups/validate"}
OF_COMMANDS = {"/commands/mutate", "/commands/validate"}  # always installed, as no Command is executed without them
OF_PODS = {"/pods/mutate", "/pods/validate"}
WITH_RESOURCE_GROUPS = (
    "custom.admission_config_override=resourceGroups: [{resourceGroup: gpu, object: {key: namespace, value: [gpu]}}]"
)


@pytest.mark.parametrize(
    ("options", "of_controllers", "of_flows"),
    [
        ((), {*OF_JOBS, *OF_GROUPS, *OF_PODS}, {*OF_JOBS, *OF_COMMANDS}),
        (
            ("custom.enabled_admissions=/jobs/mutate\\,/podgroups/validate",),
            {"/jobs/mutate", "/podgroups/validate"},
            {"/jobs/mutate", *OF_COMMANDS},
        ),
        (("custom.job_plugins=mine",), {*OF_GROUPS, *OF_PODS}, OF_COMMANDS),
        (("custom.admission_feature_gates=PodLevelResources=false",), {*OF_GROUPS, *OF_PODS}, OF_COMMANDS),
        ((WITH_RESOURCE_GROUPS.replace(",", "\\,"),), {*OF_JOBS, *OF_GROUPS, "/pods/validate"}, {*OF_JOBS, *OF_COMMANDS}),
        (("custom.jobflow_enable=false",), {*OF_JOBS, *OF_GROUPS, *OF_PODS}, set()),
        (("custom.webhooks_namespace_selector_expressions[0].key=batch",), set(), set()),
        (("custom.admission_enable=false", "custom.vap_enable=true"), set(), set()),
    ],
)
def test_webhooks_skip_the_programs_that_apply_the_same_rules_in_process(helm, options, of_controllers, of_flows):
    documents = rendered(helm, *options)
    wanted = {"controllers": of_controllers, "jobflow": of_flows}
    for program, paths in wanted.items():
        if f"pyroclast-{program}" in of_kind(documents, "Deployment"):
            settings = settings_of(documents, program)
            assert set(settings.in_process_webhooks) == paths
        else:
            assert not paths
    conditions = {
        hook["clientConfig"]["service"]["path"]: condition["expression"]
        for each in documents
        if each["kind"].endswith("WebhookConfiguration")
        for hook in each["webhooks"]
        for condition in hook.get("matchConditions", ())
        if condition["name"] == "not-checked"
    }
    assert set(conditions) == of_controllers | of_flows
    for path, expression in conditions.items():
        assert {program for program in wanted if f"pyroclast-{program}'" in expression} == {
            program for program, paths in wanted.items() if path in paths
        }
