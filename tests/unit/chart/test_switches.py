"""Every value of the chart shows where it should: those of one program in that program alone, the others in one place each."""

import ast
from pathlib import Path

import pytest
import yaml

from pyroclast.runtime.settings import parse
from tests.unit.chart import render, values_schema
from tests.unit.chart.test_chart import KEYS, of_kind

VALUES = yaml.safe_load(values_schema.VALUES.read_text())
PORTS = {"admission": 8080, "board": 8084, "controller": 8081, "jobflow": 8081, "recorder": 8083, "scheduler": 8080}


def pod(workload):
    return workload["spec"]["template"]["spec"]


def container(workload):
    (found,) = pod(workload)["containers"]
    return found


def requirement(key):
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


OF_A_PROGRAM = {
    "custom.{}_affinity": (requirement, lambda workload: pod(workload)["affinity"]),
    "custom.{}_tolerations": (lambda key: [{"key": key, "operator": "Exists"}], lambda workload: pod(workload)["tolerations"]),
    "custom.{}_ns": (lambda key: {"pool": key}, lambda workload: pod(workload)["nodeSelector"]),
    "custom.{}_sc": (lambda key: {"supplementalGroups": [len(key)]}, lambda workload: pod(workload)["securityContext"]),
    "custom.{}_main_csc": (lambda key: {"runAsUser": len(key)}, lambda workload: container(workload)["securityContext"]),
    "custom.{}_resources": (
        lambda key: {"requests": {"cpu": f"{len(key)}", "memory": f"{len(key)}Gi"}, "limits": {"memory": f"{len(key)}Gi"}},
        lambda workload: container(workload)["resources"],
    ),
    "custom.{}_podLabels": (
        lambda key: {"of-pods": key},
        lambda workload: {"of-pods": workload["spec"]["template"]["metadata"]["labels"].get("of-pods")},
    ),
    "custom.{}_labels": (lambda key: {"of": key}, lambda workload: {"of": workload["metadata"]["labels"].get("of")}),
    "custom.{}_env": (lambda key: [{"name": "OF", "value": key}], lambda workload: container(workload)["env"][-1:]),
    "custom.{}_extra_args": (lambda key: [f"--config=/{key}"], lambda workload: container(workload)["args"][-1:]),
    "custom.{}_log_level": (
        lambda key: "debug" if len(key) % 2 else "error",
        lambda workload: setting(workload, "log-level"),
    ),
    "custom.{}_replicas": (len, lambda workload: workload["spec"]["replicas"]),
    "basic.{}_image_name": (
        lambda key: f"other/{key}-image",
        lambda workload: container(workload)["image"].partition("@")[0].rpartition(":")[0],
    ),
    "basic.{}_image_tag_version": (
        lambda key: f"1.{len(key)}",
        lambda workload: container(workload)["image"].partition("@")[0].rpartition(":")[2],
    ),
    "basic.{}_image_digest": (
        lambda key: f"sha256:{len(key):064}",
        lambda workload: container(workload)["image"].partition("@")[2],
    ),
}
"""By the path of a value, with the prefix of a program's values left out: what it is set to for each, and where that shows."""
OF_A_LEADER = {
    "custom.{}_lease_name": (lambda key: f"{key}-lease", lambda workload: setting(workload, "leader-elect-resource-name")),
}
DEFAULTS = {
    "custom.default_affinity": "custom.{}_affinity",
    "custom.default_tolerations": "custom.{}_tolerations",
    "custom.default_ns": "custom.{}_ns",
    "custom.default_sc": "custom.{}_sc",
    "custom.default_csc": "custom.{}_main_csc",
    "custom.default_env": "custom.{}_env",
    "custom.log_level": "custom.{}_log_level",
    "basic.image_tag_version": "basic.{}_image_tag_version",
}
"""What holds for every program that has nothing of its own, and where that shows."""
SETTINGS = {
    "webhook.certificateValidity": ("admission", "certificate-validity", "48h"),
    "webhook.caValidity": ("admission", "ca-validity", "480h"),
    "webhook.certificateOverlap": ("admission", "certificate-overlap", "1m"),
    "webhook.url": ("admission", "webhook-url", "https://a.example.org"),
    "basic.admission_port": ("admission", "port", 9443),
    "basic.admission_secret_name": ("admission", "webhook-secret-name", "other"),
    "custom.one_pod_without_group": ("controller", "one-pod-without-group", True),
    "custom.max_queue_depth": ("admission", "max-queue-depth", 3),
    "custom.max_pods_per_job": ("admission", "max-pods-per-job", 7),
    "custom.allow_job_placement": ("admission", "allow-job-placement", True),
    "custom.enable_root_queue_protection": ("admission", "enable-root-queue-protection", False),
    "custom.enable_queue_allocated_pods_check": ("admission", "enable-queue-allocated-pods-check", True),
    "custom.enable_flow_protection": ("admission", "enable-flow-protection", False),
    "custom.enabled_admissions": ("admission", "enabled-admission", "/jobs/validate,/commands/mutate,/commands/validate"),
    "custom.job_plugins": ("admission", "job-plugins", "stamp"),
    "custom.admission_feature_gates": ("admission", "feature-gates", "A=true"),
    "custom.controller_shards": ("controller", "leader-elect-shards", 2),
    "custom.controller_worker_threads": ("controller", "worker-threads", 2),
    "custom.controller_worker_threads_for_gc": ("controller", "worker-threads-for-gc", 3),
    "custom.controller_worker_threads_for_podgroup": ("controller", "worker-threads-for-podgroup", 4),
    "custom.controller_kube_api_qps": ("controller", "kube-api-qps", 7),
    "custom.controller_kube_api_burst": ("controller", "kube-api-burst", 8),
    "custom.jobflow_shards": ("jobflow", "leader-elect-shards", 3),
    "custom.board_kube_api_qps": ("board", "kube-api-qps", 13),
    "custom.board_kube_api_burst": ("board", "kube-api-burst", 14),
    "custom.recorder_kube_api_qps": ("recorder", "kube-api-qps", 11),
    "custom.recorder_kube_api_burst": ("recorder", "kube-api-burst", 12),
    "custom.recorder_keep_pods": ("recorder", "keep-pods", "25h"),
    "custom.recorder_keep_jobs": ("recorder", "keep-jobs", "26h"),
    "custom.recorder_keep_usage": ("recorder", "keep-usage", "27h"),
    "custom.scheduler_kube_api_qps": ("scheduler", "kube-api-qps", 9),
    "custom.scheduler_kube_api_burst": ("scheduler", "kube-api-burst", 10),
    "custom.scheduler_schedule_period": ("scheduler", "schedule-period", "3s"),
    "custom.scheduler_name": ("scheduler", "scheduler-name", "other"),
    "custom.scheduler_feature_gates": ("scheduler", "feature-gates", "B=false"),
    "custom.scheduler_sharding_mode": ("scheduler", "scheduler-sharding-mode", "soft"),
    "custom.scheduler_sharding_name": ("scheduler", "scheduler-sharding-name", "mine"),
    "custom.ignored_provisioners": ("scheduler", "ignored-provisioners", "a"),
    "custom.scheduler_estimate_least_held": ("scheduler", "estimate-least-held", 0.8),
    "custom.scheduler_skip_unknown_plugins": ("scheduler", "skip-unknown-plugins", True),
    "custom.otel_endpoint": ("jobflow", "otel-endpoint", "http://collector:4318"),
}
"""Values that are one flag: of which program, which, and another value than the default."""


def setting(workload, flag):
    """What follows a flag among the arguments; None where it is not given."""
    given = dict(argument.removeprefix("--").partition("=")[::2] for argument in container(workload)["args"])
    return given.get(flag)


def put(values, path, value):
    section, _, name = path.partition(".")
    values.setdefault(section, {})[name] = value


def made(helm, folder, values):
    """The workloads by the prefixes of their programs' values, and everything."""
    text = yaml.safe_dump(values)
    file = folder / f"{hash(text)}.yaml"  # what is rendered is kept by the name of the file
    file.write_text(text)
    documents = render.documents(helm, "--values", str(file))
    workloads = of_kind(documents, "Deployment")
    return {key: workloads.get(f"pyroclast-{program}") for program, key in KEYS.items()}, documents


def of_programs():
    """(path, value, where it shows, key) of each value that each program has of its own."""
    leaders = [key for key in KEYS.values() if key not in {"admission", "board"}]
    for table, keys in ((OF_A_PROGRAM, KEYS.values()), (OF_A_LEADER, leaders)):
        for path, (value, shows) in table.items():
            for key in keys:
                yield path.format(key), value(key), shows, key


def test_values_of_one_program_apply_to_that_program(helm, tmp_path):
    values = {}
    for path, value, _, _ in of_programs():
        put(values, path, value)
    put(values, "custom.recorder_database_secret", "history")
    put(values, "custom.board_session_secret", "session")
    workloads, _ = made(helm, tmp_path, values)
    for path, value, shows, key in of_programs():
        assert shows(workloads[key]) == value, path


def test_default_values_apply_to_each_program_without_a_value_of_its_own(helm, tmp_path):
    values = {}
    for path, own in DEFAULTS.items():
        put(values, path, OF_A_PROGRAM[own][0]("all"))
        put(values, own.format("jobflow"), OF_A_PROGRAM[own][0]("jobflow" if "env" in own else "jobflows"))
    workloads, _ = made(helm, tmp_path, values)
    for path, own in DEFAULTS.items():
        value, shows = OF_A_PROGRAM[own]
        want, found = value("all"), {key: shows(workload) for key, workload in workloads.items()}
        if isinstance(want, dict):  # helm joins what is given with the mappings of values.yaml
            assert all(want.items() <= found[key].items() for key in found if key != "jobflow"), path
        else:
            assert all(found[key] == want for key in found if key != "jobflow"), path
        assert found["jobflow"] != want, path


def test_each_flag_value_is_passed_as_its_flag(helm, tmp_path):
    values = {}
    for path, (_, _, value) in SETTINGS.items():
        put(values, path, value)
    workloads, _ = made(helm, tmp_path, values)
    plain, _ = made(helm, tmp_path, {})
    for path, (key, flag, value) in SETTINGS.items():
        section, _, name = path.partition(".")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert VALUES[section][name] != value, f"{path}: the default shows nothing"
        assert setting(workloads[key], flag) == text, path
        assert setting(plain[key], flag) != text, path
    for key, workload in workloads.items():
        assert parse(values_schema.SETTINGS[key], container(workload)["args"], key)


@pytest.mark.parametrize("off", KEYS.values())
def test_metrics_can_be_off_in_one_program(helm, tmp_path, off):
    workloads, documents = made(helm, tmp_path, {"custom": {f"{off}_metrics_enable": False}})
    for program, key in KEYS.items():
        assert setting(workloads[key], "enable-metrics") == (None if key == off else "true")
        ports = {port["containerPort"] for port in container(workloads[key])["ports"] if port["name"] == "metrics"}
        assert ports == (set() if key == off else {PORTS[key]})
        service = of_kind(documents, "Service").get(f"pyroclast-{program}-service", {"spec": {"ports": []}, "metadata": {}})
        assert any(port["name"] == "metrics" for port in service["spec"]["ports"]) == (key != off)
        assert ("prometheus.io/scrape" in service["metadata"].get("annotations", {})) == (key != off)


@pytest.mark.parametrize("off", KEYS.values())
def test_disabled_program_has_no_objects_in_the_release(helm, tmp_path, off):
    workloads, documents = made(
        helm, tmp_path, {"custom": {f"{off}_enable": False, "vap_enable": True, "leader_elect_enable": True}}
    )
    gone = {"controller": {"controller", "jobflow"}}.get(off, {off})
    assert {key for key, workload in workloads.items() if workload is None} == gone
    names = {each["metadata"]["name"] for each in documents}
    for program, key in KEYS.items():
        name = f"pyroclast-{program}"
        assert bool(names & {name, f"{name}-role", f"{name}-service", f"{name}-account"}) == (key not in gone)
        assert key != off or not [each for each in names if each.startswith(name) and "-validation-policy" not in each]
    assert any(each["kind"].endswith("WebhookConfiguration") for each in documents) == (off != "admission")


def test_configuration_values_are_rendered_into_config_maps_flags_and_webhooks(helm, tmp_path):
    values = {
        "basic": {"scheduler_config_file": "config/volcano-scheduler-ci.conf"},
        "custom": {
            "controller_config_override": "networkTopologyDiscovery: []",
            "controller_enabled_controllers": "*",
            "sharding_configmap_enable": False,
            "sharding_configmap_data": "schedulerConfigs: []",
            "webhooks_namespace_selector_expressions": [{"key": "batch", "operator": "Exists"}],
        },
        "webhook": {"annotations": {"a": "b"}},
    }
    workloads, documents = made(helm, tmp_path, values)
    maps = of_kind(documents, "ConfigMap")
    assert maps["pyroclast-controller-configmap"]["data"] == {"volcano-controller.conf": "networkTopologyDiscovery: []\n"}
    assert "reclaim" in maps["pyroclast-scheduler-configmap"]["data"]["volcano-scheduler-ci.conf"]
    assert setting(workloads["scheduler"], "scheduler-conf").endswith("/volcano-scheduler-ci.conf")
    assert "pyroclast-sharding-configmap" not in maps
    assert setting(workloads["controller"], "sharding-configmap") is None
    for each in documents:
        if each["kind"].endswith("WebhookConfiguration"):
            assert each["metadata"]["annotations"] == {"a": "b"}
            (hook,) = each["webhooks"]
            if hook["rules"][0]["scope"] == "Namespaced" and hook["rules"][0]["resources"] != ["commands"]:
                assert {"key": "batch", "operator": "Exists"} in hook["namespaceSelector"]["matchExpressions"]


def test_image_values_set_registry_pull_policy_and_pull_secret(helm, tmp_path):
    values = {"image_pull_secret": "registry", "image_pull_policy": "Never", "image_registry": "registry.example.org/a"}
    workloads, _ = made(helm, tmp_path, {"basic": values})
    for workload in workloads.values():
        assert pod(workload)["imagePullSecrets"] == [{"name": "registry"}]
        assert container(workload)["imagePullPolicy"] == "Never"
        assert container(workload)["image"].startswith("registry.example.org/a/pyroclast/")


@pytest.mark.parametrize("spread", ["", "DoNotSchedule"])
def test_topology_spread_and_disruption_budget_follow_their_values(helm, tmp_path, spread):
    workloads, documents = made(helm, tmp_path, {"custom": {"topology_spread": spread, "pdb_enable": False}})
    found = pod(workloads["admission"]).get("topologySpreadConstraints", [])
    assert [each["whenUnsatisfiable"] for each in found] == ([spread] if spread else [])
    assert not of_kind(documents, "PodDisruptionBudget")


def test_service_monitor_uses_the_configured_interval_and_labels(helm, tmp_path):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"custom": {"metrics_enable": True}, "monitoring": {"interval": "7s", "labels": {"a": "b"}}}))
    documents = render.documents(helm, "--values", str(file), "--api-versions", "monitoring.coreos.com/v1")
    (monitor,) = of_kind(documents, "ServiceMonitor").values()
    assert {endpoint["interval"] for endpoint in monitor["spec"]["endpoints"]} == {"7s"}
    assert monitor["metadata"]["labels"]["a"] == "b"


@pytest.mark.parametrize(("policy", "seconds"), [("Ignore", 3), ("Fail", 30)])
def test_webhooks_use_the_configured_failure_policy_and_timeout(helm, tmp_path, policy, seconds):
    _, documents = made(helm, tmp_path, {"webhook": {"failurePolicy": policy, "timeoutSeconds": seconds}})
    hooks = [hook for each in documents if each["kind"].endswith("WebhookConfiguration") for hook in each["webhooks"]]
    that_check = [hook for hook in hooks if not hook["name"].startswith("warnof")]
    assert {(hook["failurePolicy"], hook["timeoutSeconds"]) for hook in that_check} == {(policy, seconds)}


def test_dashboard_config_maps_have_the_configured_labels(helm, tmp_path):
    values = {"custom": {"metrics_enable": True}, "monitoring": {"dashboardLabels": {"found-by": "grafana"}}}
    _, documents = made(helm, tmp_path, values)
    boards = [each for name, each in of_kind(documents, "ConfigMap").items() if "dashboard" in name]
    assert boards
    assert all(each["metadata"]["labels"]["found-by"] == "grafana" for each in boards)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("service", ["scheduler", "recorder"])
def test_services_may_read_native_podgroups_only_when_native_workloads_are_on(helm, tmp_path, service, enabled):
    workloads, documents = made(helm, tmp_path, {"nativeWorkloads": {"enabled": enabled}})
    rules = of_kind(documents, "ClusterRole")[f"pyroclast-{service}"]["rules"]
    groups = {group for rule in rules if "podgroups" in rule["resources"] for group in rule["apiGroups"]}
    assert ("scheduling.k8s.io" in groups) is enabled
    (container,) = workloads[service]["spec"]["template"]["spec"]["containers"]
    assert ("--native-workloads=false" in container["args"]) is not enabled


@pytest.mark.parametrize("publish", [True, False])
def test_controllers_may_create_native_podgroups_only_when_publishing_is_on(helm, tmp_path, publish):
    workloads, documents = made(helm, tmp_path, {"nativeWorkloads": {"publish": publish}})
    rules = of_kind(documents, "ClusterRole")["pyroclast-controllers"]["rules"]
    verbs = [rule["verbs"] for rule in rules if (rule["apiGroups"], rule["resources"]) == (["scheduling.k8s.io"], ["podgroups"])]
    assert verbs == ([["create", "get", "patch"]] if publish else [])
    (container,) = workloads["controller"]["spec"]["template"]["spec"]["containers"]
    assert ("--publish-native-groups=true" in container["args"]) is publish


@pytest.mark.parametrize("enabled", [True, False])
def test_namespace_scheduler_policy_is_rendered_only_when_enabled(helm, tmp_path, enabled):
    _, documents = made(helm, tmp_path, {"custom": {"namespace_scheduler_enable": enabled}})
    found = of_kind(documents, "MutatingAdmissionPolicy")
    assert set(found) == ({"pyroclast-namespace-scheduler"} if enabled else set())
    for policy in found.values():
        selected, exempt = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert selected == {"key": "pyroclast.dev/scheduler-name", "operator": "Exists"}
        assert "kube-system" in exempt["values"]


def test_further_scheduler_names_reach_each_program_and_the_policies(helm, tmp_path):
    workloads, documents = made(helm, tmp_path, {"custom": {"further_scheduler_names": ["second"], "vap_enable": True}})
    for program in ("admission", "controller", "jobflow", "scheduler"):
        (container,) = workloads[program]["spec"]["template"]["spec"]["containers"]
        names = [word for word in container["args"] if word.startswith("--scheduler-name=")]
        assert names == ["--scheduler-name=volcano", "--scheduler-name=second"], program
    (container,) = workloads["recorder"]["spec"]["template"]["spec"]["containers"]
    assert "--schedulers=volcano,second" in container["args"]
    policies = str(of_kind(documents, "ValidatingAdmissionPolicy"))
    assert policies.count("in ['', 'volcano', 'second']") == 2
    assert "in ['volcano', 'second']" in str(of_kind(documents, "ValidatingWebhookConfiguration"))


def test_there_is_a_test_of_every_value():
    """Those of the tables, and those that other tests set by their names."""
    known = {path for path, *_ in of_programs()} | set(SETTINGS) | set(DEFAULTS)
    known |= {f"custom.{key}_{of}" for key in KEYS.values() for of in ("enable", "metrics_enable")}
    modules = [ast.parse(path.read_text()) for path in Path(__file__).parent.glob("test_*.py")]
    constants = [node.value for module in modules for node in ast.walk(module) if isinstance(node, ast.Constant)]
    text = "\n".join(value for value in constants if isinstance(value, str))
    left = [f"{section}.{name}" for section, names in VALUES.items() for name in names if f"{section}.{name}" not in known]
    assert not [path for path in left if path.partition(".")[2] not in text]
