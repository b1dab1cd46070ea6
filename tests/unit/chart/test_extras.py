"""What may be installed besides: monitoring, network policies, roles of users, policies for accounts, the test of helm."""

import json
import re

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.registry import Collector

from pyroclast.api.types import (
    COLOCATION_CONFIGURATIONS,
    COMMANDS,
    CRON_JOBS,
    EVENTS,
    HYPER_JOBS,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    POD_GROUPS,
    PODS,
    QUEUES,
)
from pyroclast.expressions import compile_expression
from pyroclast.expressions.values import DYN
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.runtime.leadership import STANDS_ASIDE
from pyroclast.runtime.metrics import ApiMetrics, ExactCounter, LoopMetrics, new_registry
from pyroclast_admission.engine import ReviewMetrics
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.metrics import BoardMetrics, JobEnds, WaitingJobs
from pyroclast_job_controller import selftest
from pyroclast_job_controller.metrics import ControllerMetrics
from pyroclast_recorder.app import RecorderMetrics
from pyroclast_scheduler.shell.loop import BudgetReports
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.object_metrics import QueueSeries, WaitingSeries
from tests.unit.chart import render
from tests.unit.chart.accounts import ATTEMPTS
from tests.unit.chart.test_chart import KEYS, PROGRAMS, WRITERS, container_of, of_kind, rendered

OPERATOR = ("--api-versions", "monitoring.coreos.com/v1")
DASHBOARDS = sorted((render.CHART / "dashboards").glob("*.json"))


@pytest.fixture(scope="module")
def monitored(helm):
    return render.documents(helm, *OPERATOR, "--set", "custom.metrics_enable=true")


@pytest.fixture(scope="module")
def series():
    """The names of all metrics of all services, as Prometheus sees them."""
    registry = new_registry()
    for metrics in (LoopMetrics, ApiMetrics, SchedulerMetrics, ReviewMetrics, ControllerMetrics, BoardMetrics):
        metrics(registry)
    QueueSeries(registry)
    Gauge(*STANDS_ASIDE, registry=registry)
    cluster = Cluster(Client(ClusterConfig("http://127.0.0.1:1")), "default")
    WaitingJobs(registry, cluster)
    JobEnds(registry, cluster)
    BudgetReports(registry, EventRecorder(Client(ClusterConfig("http://127.0.0.1:1")), "x"), 600.0)
    scheduler, recorder = CollectorRegistry(), CollectorRegistry()  # the board has some of their series
    WaitingSeries(scheduler)
    RecorderMetrics(recorder)
    return {name for each in (registry, scheduler, recorder) for collector in collectors(each) for name in names(collector)} | {
        "up"
    }


def collectors(registry: CollectorRegistry) -> list[Collector]:
    return list(registry._collector_to_names)


def names(collector: Collector) -> set[str]:
    described = collector.describe() if isinstance(collector, WaitingJobs) else collector.collect()
    plain = {metric.name for metric in described}
    return (
        {f"{name}_total" for name in plain}
        if isinstance(collector, Counter) and not isinstance(collector, ExactCounter)
        else plain
    )


def asked(expression: str) -> set[str]:
    found = re.findall(r"\b((?:volcano|pyroclast|rest_client|workqueue|process|up)(?:_\w+)?)\s*[{\[)]", expression)
    return {name.removesuffix("_bucket") for name in found}


def test_alerts_query_only_existing_metrics_and_are_documented(monitored, series):
    (rule,) = of_kind(monitored, "PrometheusRule").values()
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert alerts
    for alert in alerts:
        assert asked(alert["expr"]), alert["expr"]
        assert asked(alert["expr"]) <= series
        assert alert["annotations"]["summary"]
        assert alert["labels"]["severity"] in {"info", "warning", "critical"}
        assert f"\n## {alert['alert']}\n" in (render.ROOT / "docs" / "reference" / "alerts.md").read_text()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_query_only_existing_metrics(path, monitored, series):
    (text,) = of_kind(monitored, "ConfigMap")[f"pyroclast-dashboard-{path.stem}"]["data"].values()
    dashboard = json.loads(text)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert asked(target["expr"]) <= series, target["expr"]
            assert asked(target["expr"])
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_service_monitor_selects_every_service_and_an_existing_port(monitored):
    (monitor,) = of_kind(monitored, "ServiceMonitor").values()
    labels = monitor["spec"]["selector"]["matchLabels"]
    for service in of_kind(monitored, "Service").values():
        assert labels.items() <= service["metadata"]["labels"].items()
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= {
            port["name"] for port in service["spec"]["ports"]
        }


def test_monitoring_objects_need_the_operator_and_dashboards_need_metrics_enable(helm):
    documents = rendered(helm, "custom.metrics_enable=true")
    assert not {document["kind"] for document in documents} & {"ServiceMonitor", "PrometheusRule"}
    assert {f"pyroclast-dashboard-{path.stem}" for path in DASHBOARDS} <= of_kind(documents, "ConfigMap").keys()
    assert not [name for name in of_kind(rendered(helm), "ConfigMap") if "dashboard" in name]


@pytest.mark.parametrize("program", PROGRAMS)
def test_network_policies_allow_ingress_to_every_port_but_healthz(helm, program):
    documents = rendered(helm, "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=b")
    policy = of_kind(documents, "NetworkPolicy")[f"pyroclast-{program}"]["spec"]
    template = of_kind(documents, "Deployment")[f"pyroclast-{program}"]["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    let_in = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    assert let_in.keys() == {number for name, number in ports.items() if name != "healthz"}
    board = {"matchLabels": {"app": "pyroclast-board", "app.kubernetes.io/instance": "pyroclast"}}
    asks = [{"podSelector": board}] if program == "scheduler" else []
    assert let_in[ports["metrics"]] == [{"namespaceSelector": {"matchLabels": {"a": "b"}}}, *asks]
    if "admission" in ports:
        assert let_in[ports["admission"]] is None
        peer = "networkPolicy.webhooksFrom[0].ipBlock.cidr=192.0.2.10/32"
        rules = of_kind(rendered(helm, peer), "NetworkPolicy")["pyroclast-admission"]["spec"]["ingress"]
        assert {"ports": [{"port": ports["admission"]}], "from": [{"ipBlock": {"cidr": "192.0.2.10/32"}}]} in rules


def test_network_policy_has_no_ingress_when_scheduler_metrics_are_off(helm):
    documents = rendered(helm, "networkPolicy.enabled=true", "custom.scheduler_metrics_enable=false")
    assert not of_kind(documents, "NetworkPolicy")["pyroclast-scheduler"]["spec"]["ingress"]


def test_aggregated_cluster_roles_grant_view_edit_and_admin_on_all_kinds(helm):
    roles = of_kind(rendered(helm, "custom.aggregationRule_labels.team=a"), "ClusterRole")
    ours = {
        (kind.group, kind.plural)
        for kind in (JOBS, CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, HYPER_JOBS, COMMANDS, POD_GROUPS, COLOCATION_CONFIGURATIONS)
    }
    rights = {}
    for name, level in {"viewer": "view", "editor": "edit", "admin": "admin"}.items():
        role = roles[f"vcjob-{name}-role"]
        assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{level}"] == "true"
        rights[level] = {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
    assert roles["vcjob-viewer-role"]["metadata"]["labels"]["team"] == "a"
    assert {(group, resource) for group, resource, verb in rights["view"]} >= ours
    assert {verb for _, _, verb in rights["view"]} == {"get", "list", "watch"}
    assert {(group, resource) for group, resource, verb in rights["edit"] | rights["admin"] if verb == "create"} == ours
    assert not [right for right in rights["edit"] | rights["admin"] if right[1].endswith("/status")]


def test_user_role_grants_exactly_the_rights_of_client_and_command_line(helm):
    role = of_kind(rendered(helm), "ClusterRole")["pyroclast-user"]
    assert not [label for label in role["metadata"]["labels"] if "aggregate-to" in label]
    rights = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            rights[rule["apiGroups"][0], resource] = set(rule["verbs"])
    reads, writes = {"get", "list", "watch"}, {"create", "get", "list", "watch", "patch", "delete"}
    work = {(JOBS.group, JOBS.plural): {*writes, "update"}, (JOB_FLOWS.group, JOB_FLOWS.plural): writes}
    work |= {(JOB_TEMPLATES.group, JOB_TEMPLATES.plural): writes - {"watch"}}
    shown = {(kind.group, kind.plural): reads for kind in (POD_GROUPS, QUEUES, PODS)}
    shown |= {(EVENTS.group, EVENTS.plural): {"list", "watch"}}
    others = {(COMMANDS.group, COMMANDS.plural): {"create"}, ("", "pods/log"): {"get"}, ("", "secrets"): {"create", "patch"}}
    assert rights == {**work, **shown, **others}


@pytest.mark.parametrize("program", WRITERS)
def test_account_policy_is_bound_to_its_service_account_and_covers_what_it_matches(helm, program):
    documents = rendered(helm)
    name = f"pyroclast-{program}-account"
    policy = of_kind(documents, "ValidatingAdmissionPolicy")[name]["spec"]
    account, broken = (condition["expression"] for condition in policy["matchConditions"])
    assert account == f"request.userInfo.username == 'system:serviceaccount:{render.NAMESPACE}:pyroclast-{program}'"
    assert "namespaceObject" not in broken, "conditions do not know the namespace"
    binding = of_kind(documents, "ValidatingAdmissionPolicyBinding")[name]["spec"]
    assert binding == {"policyName": name, "validationActions": ["Deny"]}
    looked_at = {resource for rule in policy["matchConstraints"]["resourceRules"] for resource in rule["resources"]}
    judged = [each["expression"].partition(" ||")[0] for each in policy["validations"]]
    of_resources = [re.fullmatch(r"request.resource.resource [!=]= '(\w+)'", each)[1] for each in judged]
    assert set(of_resources) <= {each.partition("/")[0] for each in looked_at}
    assert re.findall(r"request.resource.resource [!=]= '(\w+)'", broken) == of_resources, "the policy matches what it refuses"
    without = rendered(helm, "custom.account_policies_enable=false")
    assert set(of_kind(without, "ValidatingAdmissionPolicy")) == {"pyroclast-seats"}, "it restricts users"


def test_account_policy_allows_the_lease_named_in_the_program_arguments(helm):
    documents = rendered(helm, "custom.scheduler_lease_name=second.volcano")
    container = container_of(documents, "scheduler")
    assert "--leader-elect-resource-name=second.volcano" in container["args"]
    validations = of_kind(documents, "ValidatingAdmissionPolicy")["pyroclast-scheduler-account"]["spec"]["validations"]
    assert any(r"'^second\\.volcano-[0-9]+$'" in each["expression"] for each in validations)


def test_helm_test_runs_a_gang_of_two_and_keeps_one_pod_with_its_log(helm):
    documents = rendered(helm, "test.namespace=batch", "custom.scheduler_name=other")
    (pod,) = of_kind(documents, "Pod").values()
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["python", "-m", selftest.__name__]
    namespace, image, scheduler, seconds, webhooks, own, account = container["args"]
    job = selftest.manifest("a", namespace, image, scheduler)
    assert (job["metadata"]["namespace"], job["spec"]["schedulerName"], float(seconds)) == ("batch", "other", 120)
    assert job["spec"]["minAvailable"] == job["spec"]["tasks"][0]["replicas"] == 2
    assert {path for path in webhooks.split(",") if path.endswith("/validate")} - set(selftest.INVALID) == {
        "/pods/validate",
        "/workloads/validate",
        "/ownedjobs/validate",
        "/batchjobs/validate",
        "/nativegroups/validate",
    }, "kinds that are not ours, whose webhooks accept or only warn"
    hooks = [document for document in documents if document["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]
    assert hooks == [pod], "helm test --logs reads the log of each hook, as if each were a pod"
    assert pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation", "--logs reads it afterwards"
    assert own == f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    assert pod["spec"]["serviceAccountName"] == account
    roles = of_kind(documents, "Role")
    assert roles[account]["metadata"]["namespace"] == "batch"
    (patched, read) = roles[f"{account}-pod"]["rules"]
    assert (patched["resourceNames"], read["resourceNames"]) == ([pod["metadata"]["name"]], [account])
    assert not of_kind(rendered(helm, "custom.scheduler_enable=false"), "Pod"), f"a gang needs {sorted(KEYS)}"


@pytest.mark.parametrize(
    ("values", "leases"),
    [
        ([], {"controllers": "vc-controller-manager", "jobflow": "vc-controller-manager", "scheduler": "volcano"}),
        (["custom.wait_for_volcano_in="], {}),
        (
            ["custom.scheduler_lease_name=second"],
            {"controllers": "vc-controller-manager", "jobflow": "vc-controller-manager", "scheduler": "second"},
        ),
    ],
    ids=["by default", "off", "another scheduler"],
)
def test_services_wait_for_volcano_and_may_read_its_leases(helm, values, leases):
    documents = rendered(helm, *values)
    waited, readable, followed = {}, {}, {}
    for program in ("controllers", "jobflow", "recorder", "scheduler"):
        arguments = container_of(documents, program)["args"]
        for argument in arguments:
            flag, _, value = argument.partition("=")
            if flag == "--leader-elect-wait-for":
                waited[program] = value
            if flag == "--leader-elect-wait-for-app":
                followed[program] = value
        for rule in of_kind(documents, "ClusterRole")[f"pyroclast-{program}"]["rules"]:
            if rule["resources"] == ["leases"] and rule["verbs"] == ["get"]:
                (readable[program],) = rule["resourceNames"]
    apps = {"controllers": "volcano-controller", "jobflow": "volcano-controller", "scheduler": "volcano-scheduler"}
    assert followed == (apps if leases else {})
    assert waited == {program: f"volcano-system/{name}" for program, name in leases.items()}
    assert readable == leases


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda each: f"{each.account}: {each.words}")
def test_account_policy_decides_what_a_token_is_good_for(helm, attempt):
    policy = of_kind(rendered(helm), "ValidatingAdmissionPolicy")[f"pyroclast-{attempt.account}-account"]["spec"]
    rules = policy["matchConstraints"]["resourceRules"]
    assert any(attempt.resource in rule["resources"] and attempt.operation in rule["operations"] for rule in rules)
    resource, _, subresource = attempt.resource.partition("/")
    request = {"resource": {"resource": resource}, "operation": attempt.operation, "namespace": attempt.namespace or "alice"}
    request |= {"subResource": subresource} if subresource else {}
    variables = {"object": attempt.after(), "oldObject": attempt.old, "request": request, "namespaceObject": {"metadata": {}}}

    def holds(expression):
        return compile_expression(expression, dict.fromkeys(variables, DYN)).evaluate(variables)

    said = [each["message"] for each in policy["validations"] if not holds(each["expression"])]
    assert attempt.want in said[0] if attempt.want else not said  # the API server tells of the first
    assert holds(policy["matchConditions"][1]["expression"]) is bool(attempt.want)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_account_reads_the_secrets_of_the_cluster_or_has_wildcards(helm, program):
    rules = of_kind(rendered(helm), "ClusterRole")[f"pyroclast-{program}"]["rules"]
    assert not [rule for rule in rules if "*" in (*rule.get("apiGroups", ()), *rule.get("resources", ()), *rule["verbs"])]
    verbs = {verb for rule in rules if "secrets" in rule["resources"] for verb in rule["verbs"]}
    assert not verbs & {"get", "list", "watch"}


def test_the_board_may_write_nothing_but_ask_for_users_and_rights(helm):
    rules = of_kind(rendered(helm), "ClusterRole")["pyroclast-board"]["rules"]
    writes = {resource for rule in rules for resource in rule["resources"] if set(rule["verbs"]) - {"get", "list", "watch"}}
    assert writes == {"tokenreviews", "subjectaccessreviews"}
    assert "pyroclast-board" not in of_kind(rendered(helm), "Role")
