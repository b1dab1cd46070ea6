"""Values of the chart: those that fight each other, those of the original, and those that leave a program nothing to do."""

import json
import re
import shutil
import subprocess
import textwrap

import pytest
import yaml

from pyroclast.expressions import compile_expression
from pyroclast.expressions.values import DYN
from pyroclast.rules.resourcegroups import read_groups
from pyroclast.runtime.fields import is_enabled
from pyroclast_job_controller import settings
from pyroclast_scheduler.shell.explain_server import AUDIENCE
from tests.unit.chart import render, values_schema
from tests.unit.chart.test_chart import KEYS, PROGRAMS, container_of, of_kind, pod_of, rendered, settings_of

CONTROLLERS = {
    "controllers": [value for name, value in vars(settings).items() if name.isupper() and isinstance(value, str)],
    "jobflow": ["jobflow-controller", "jobtemplate-controller"],
}

FIGHTS = {
    "two schedulers without election": (
        ["custom.leader_elect_enable=false", "custom.scheduler_replicas=2"],
        "set leader_elect_enable to true, or scheduler_replicas to 1",
    ),
    "two controllers without election": (
        ["custom.leader_elect_enable=false", "custom.controller_replicas=2"],
        "set leader_elect_enable to true, or controller_replicas to 1",
    ),
    "two boards without a common key": (
        ["custom.board_replicas=2"],
        "name a Secret with a key of 32 bytes or more, or set board_replicas to 1",
    ),
    "a proxy that cannot prove itself": (
        ["custom.board_login=proxy", "custom.board_tls_secret=a"],
        "name Secrets with the certificate of the board and the CA of the proxy, or set board_login to token",
    ),
    "a CA of a proxy that nobody asks for": (
        ["custom.board_proxy_ca_secret=a"],
        "set board_login to proxy, or leave them empty",
    ),
    "two recorders of one file": (
        ["custom.recorder_replicas=2"],
        "name the Secret of a PostgreSQL database, or set recorder_replicas to 1",
    ),
    "two jobflow controllers without election": (
        ["custom.leader_elect_enable=false", "custom.jobflow_replicas=3"],
        "set leader_elect_enable to true, or jobflow_replicas to 1",
    ),
    "shards without election": (
        ["custom.leader_elect_enable=false", "custom.controller_shards=2"],
        "who works on which shard is settled by election",
    ),
    "members that stand by": (
        ["custom.scheduler_members=2", "custom.scheduler_replicas=2"],
        "members divide the work and none stands by",
    ),
    "seats with several schedulers": (
        ["custom.place_before_pods=true", "custom.scheduler_members=2"],
        "set place_before_pods to false, or scheduler_members to 1",
    ),
    "seats with nodes divided among schedulers": (
        ["custom.place_before_pods=true", "custom.scheduler_sharding_mode=soft"],
        "one scheduler must know all nodes",
    ),
    "a scheduler configuration that is not there": (
        ["basic.scheduler_config_file=config/other.conf"],
        "no file of this chart; name one of config/volcano-admission.conf, config/volcano-scheduler-ci.conf",
    ),
    "an admission configuration that is not there": (["basic.admission_config_file=nowhere"], "custom.admission_config_override"),
    "a configuration that is no mapping": (["custom.scheduler_config_override=gang"], "is no mapping in YAML"),
    "neither webhooks nor policies": (["custom.admission_enable=false"], "set admission_enable to true, or vap_enable"),
    "no webhook and no policies": (["custom.enabled_admissions="], "custom.enabled_admissions is empty"),
    "webhooks where metrics are": (["basic.admission_port=8080"], "take another, such as 8443"),
    "a controller on and off": (
        [r"custom.controller_enabled_controllers=gc-controller\,-gc-controller"],
        "names gc-controller twice",
    ),
    "a HyperNode controller of its own": (
        ["custom.hypernode_controller_mode=standalone", "custom.controller_enable=false"],
        "set controller_enable to true and controller_enabled_controllers to hyperNode-controller",
    ),
    "programs that watch files that nobody can write": (["custom.reload_enable=true"], "set readOnlyRootFilesystem to false"),
    "a further flag that another value sets": (["custom.scheduler_extra_args[0]=--leader-elect=false"], "scheduler_extra_args"),
    "a further flag that there is not": (["custom.scheduler_extra_args[0]=--default-qeue=a"], "scheduler_extra_args"),
}


@pytest.mark.parametrize(("settings", "words"), FIGHTS.values(), ids=FIGHTS)
def test_conflicting_values_are_rejected_with_an_explanation(helm, settings, words):
    options = [option for setting in settings for option in ("--set", setting)]
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render.render(helm, *options)
    assert words in caught.value.stderr


def test_single_replicas_render_without_leader_election(helm):
    assert rendered(helm, "custom.leader_elect_enable=false")


LISTS = [
    "*",
    "job-controller",
    "*,-job-controller",
    "jobflow-controller",
    "+jobtemplate-controller,gc-controller",
    "-gc-controller",
]


@pytest.mark.parametrize("chosen", LISTS)
def test_program_is_not_deployed_when_all_its_controllers_are_disabled(helm, chosen):
    deployed = of_kind(
        rendered(helm, f"custom.controller_enabled_controllers={chosen.replace(',', chr(92) + ',')}"), "Deployment"
    )
    for program, names in CONTROLLERS.items():
        runs = any(is_enabled(name, chosen.split(",")) for name in names)
        assert (f"pyroclast-{program}" in deployed) == runs


def test_hypernode_controller_is_off_when_its_mode_is_disabled(helm):
    chosen = settings_of(rendered(helm, "custom.hypernode_controller_mode=disabled"), "controllers").controllers
    assert not is_enabled("hyperNode-controller", chosen)
    assert is_enabled("job-controller", chosen)
    assert not is_enabled("sharding-controller", chosen)


def test_chart_enables_the_default_controllers(helm):
    assert settings_of(rendered(helm), "controllers").controllers == settings.DEFAULT


def test_volcano_values_file_deploys_all_programs_with_pyroclast_images(helm):
    path = render.ROOT / "tests" / "unit" / "chart" / "volcano-values.yaml"
    documents = render.documents(helm, "--values", str(path))
    deployments = of_kind(documents, "Deployment")
    assert sorted(deployments) == sorted(f"pyroclast-{program}" for program in PROGRAMS)
    for program in PROGRAMS:
        image = container_of(documents, program)["image"]
        assert image.startswith("docker.io/pyroclast/"), "images of the original are not run with our arguments"
        assert settings_of(documents, program).log_level == "info"


def test_ignored_values_are_not_values_of_the_chart():
    values = yaml.safe_load(values_schema.VALUES.read_text())
    ignored = yaml.safe_load(values_schema.IGNORED.read_text())
    assert not [path for path in ignored if path.partition(".")[2] in values[path.partition(".")[0]]]


def test_scheduler_members_run_in_a_stateful_set_with_their_count_and_pod_name(helm):
    documents = rendered(helm, "custom.scheduler_members=3")
    assert "pyroclast-scheduler" not in of_kind(documents, "Deployment")
    spec = of_kind(documents, "StatefulSet")["pyroclast-scheduler"]["spec"]
    assert spec["replicas"] == 3
    variables = {each["name"]: each for each in spec["template"]["spec"]["containers"][0]["env"]}
    assert variables["SCHEDULER_NUM"]["value"] == "3"
    assert variables["SCHEDULER_POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


@pytest.mark.parametrize("mode", ["", "none", "soft", "hard"])
def test_scheduler_may_access_node_shards_only_in_soft_and_hard_mode(helm, mode):
    rules = of_kind(rendered(helm, f"custom.scheduler_sharding_mode={mode}"), "ClusterRole")["pyroclast-scheduler"]["rules"]
    assert any("nodeshards/status" in rule["resources"] for rule in rules) == (mode in {"soft", "hard"})


@pytest.mark.parametrize("is_locking", ["true", "false"])
def test_scheduler_may_patch_nodes_only_when_node_locks_are_on(helm, is_locking):
    documents = rendered(helm, f"custom.scheduler_node_lock={is_locking}")
    rules = of_kind(documents, "ClusterRole")["pyroclast-scheduler"]["rules"]
    verbs = {verb for rule in rules if "nodes" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"} | ({"get", "patch"} if is_locking == "true" else set())
    policy = of_kind(documents, "ValidatingAdmissionPolicy")["pyroclast-scheduler-account"]["spec"]
    looked_at = [rule for rule in policy["matchConstraints"]["resourceRules"] if "nodes" in rule["resources"]]
    assert bool(looked_at) == (is_locking == "true")
    said = [each["message"] for each in policy["validations"] if "nodes" in each["expression"]]
    assert said == ["the ServiceAccount pyroclast-scheduler may only change annotations of nodes"] * len(looked_at)


@pytest.mark.parametrize(
    ("change", "is_allowed"),
    [
        ({"metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"hamivgpu": "now"}}}, True),
        ({"metadata": {"name": "n", "labels": {"a": "c"}}}, False),
        ({"metadata": {"name": "n"}}, False),
        ({"spec": {"unschedulable": True}}, False),
        ({}, True),
    ],
)
def test_admission_policy_lets_the_scheduler_change_only_node_annotations(helm, change, is_allowed):
    documents = rendered(helm, "custom.scheduler_node_lock=true")
    policy = of_kind(documents, "ValidatingAdmissionPolicy")["pyroclast-scheduler-account"]["spec"]
    (found,) = [each["expression"] for each in policy["validations"] if "nodes" in each["expression"]]
    old = {"metadata": {"name": "n", "labels": {"a": "b"}}}
    variables = {"object": {**old, **change}, "oldObject": old, "request": {"resource": {"resource": "nodes"}}}
    assert compile_expression(found, dict.fromkeys(variables, DYN)).evaluate(variables) is is_allowed


@pytest.mark.parametrize("name", ["", "ours"])
def test_the_scheduler_reads_one_config_map_at_most(helm, name):
    rules = of_kind(rendered(helm, f"custom.scheduler_device_config={name}"), "ClusterRole")["pyroclast-scheduler"]["rules"]
    found = [(rule["resourceNames"], rule["verbs"]) for rule in rules if "configmaps" in rule["resources"]]
    assert found == ([([name], ["list", "watch"])] if name else [])


def test_extra_args_and_default_env_reach_the_container(helm):
    documents = rendered(
        helm, "custom.jobflow_extra_args[0]=--probe-workers=4", "custom.default_env[0].name=TZ", "custom.default_env[0].value=UTC"
    )
    assert settings_of(documents, "jobflow").probe_workers == 4
    assert {"name": "TZ", "value": "UTC"} in container_of(documents, "jobflow")["env"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_replicas_have_a_topology_spread_and_a_budget_of_one_unavailable_pod(helm, program):
    documents = rendered(
        helm,
        f"custom.{KEYS[program]}_replicas=2",
        "custom.recorder_database_secret=history",
        "custom.board_session_secret=session",
    )
    name = f"pyroclast-{program}"
    template = of_kind(documents, "Deployment")[name]["spec"]["template"]
    (spread,) = template["spec"]["topologySpreadConstraints"]
    budget = of_kind(documents, "PodDisruptionBudget")[name]["spec"]
    for selector in (spread["labelSelector"], budget["selector"]):
        assert selector["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert budget["maxUnavailable"] == 1
    assert template["spec"]["containers"][0]["resources"]["requests"].keys() == {"cpu", "memory"}


def test_single_replica_has_no_disruption_budget(helm):
    assert not of_kind(rendered(helm, "custom.admission_replicas=1"), "PodDisruptionBudget")


def test_admission_grace_period_exceeds_shutdown_delay_plus_graceful_shutdown(helm):
    documents = rendered(helm)
    spec, settings = pod_of(documents, "admission"), settings_of(documents, "admission")
    delay = settings.shutdown_delay_duration.total_seconds()
    assert delay > 0
    assert spec["terminationGracePeriodSeconds"] > delay + settings.graceful_shutdown_time.total_seconds()


GROUPS = """
resourceGroups:
- resourceGroup: edge
  object: {key: namespace, value: [plant-a, plant-b]}
- resourceGroup: gpu
  object: {key: annotation, value: ['"example.org/device": gpu', "tier: gold"]}
- resourceGroup: other
"""


def test_only_pods_that_a_resource_group_may_select_wait_for_the_admission_service(helm, tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"custom": {"admission_config_override": GROUPS}}))
    documents = render.documents(helm, "--values", str(values))
    (hook,) = of_kind(documents, "MutatingWebhookConfiguration")["pyroclast-admission-service-pods-mutate"]["webhooks"]
    (condition,) = hook["matchConditions"]
    asked = set(re.findall(r"'([^']+)'", condition["expression"]))
    groups = read_groups(yaml.safe_load(GROUPS))
    wanted = {key for group in groups for key in (*group.annotations, *group.namespaces)}
    assert asked == wanted | {"volcano.sh/resource-group", "scheduling.volcano.sh/queue-allocation-gate"}
    assert "request.namespace in ['plant-a', 'plant-b']" in condition["expression"]


def test_sharding_config_map_is_rendered_only_when_the_controller_is_enabled(helm):
    on = rendered(helm, "custom.controller_enabled_controllers=*", "custom.sharding_configmap_data=schedulerConfigs: []")
    assert "pyroclast-sharding-configmap" in of_kind(on, "ConfigMap")
    assert "pyroclast-sharding-configmap" not in of_kind(rendered(helm), "ConfigMap")


def notes(helm, folder, *options):
    """What helm says after installing; without a cluster it only says so of a template like any other."""
    chart = shutil.copytree(render.CHART, folder / "chart")
    text = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "notes.yaml").write_text("notes: |\n" + textwrap.indent(text, "  "))
    command = [str(helm), "template", render.RELEASE, str(chart), "--show-only", "templates/notes.yaml", *options]
    return str(yaml.safe_load(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["notes"])


def test_notes_list_values_without_effect(helm, tmp_path):
    path = render.ROOT / "tests" / "unit" / "chart" / "volcano-values.yaml"
    said = notes(helm, tmp_path, "--values", str(path), "--set", "custom.colocation_enable=true")
    assert "custom.colocation_enable: there is no node agent" in said
    assert "basic.scheduler_image_name: images of Volcano take other arguments" in said
    assert "go_memlimit_enable" not in said, "defaults of the original need no word"


def test_notes_list_no_ignored_values_for_default_values(helm, tmp_path):
    assert "no effect" not in notes(helm, tmp_path)


def test_recorder_history_is_on_a_claim_kept_after_uninstall(helm):
    documents = rendered(helm, "custom.recorder_storage_size=20Gi", "custom.recorder_storage_class=fast")
    claim = of_kind(documents, "PersistentVolumeClaim")["pyroclast-recorder"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["spec"]["storageClassName"] == "fast"
    spec = pod_of(documents, "recorder")
    assert {"name": "history", "persistentVolumeClaim": {"claimName": "pyroclast-recorder"}} in spec["volumes"]
    (container,) = spec["containers"]
    (mount,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "history"]
    assert f"--database-url=sqlite:///{mount}/history.db" in container["args"]


def test_history_in_a_database_needs_no_volume(helm):
    documents = rendered(helm, "custom.recorder_database_secret=history", "custom.recorder_replicas=2")
    assert not of_kind(documents, "PersistentVolumeClaim")
    container = container_of(documents, "recorder")
    url = {"secretKeyRef": {"name": "history", "key": "url"}}
    assert {"name": "PYROCLAST_DATABASE_URL", "valueFrom": url} in container["env"]
    assert not [argument for argument in container["args"] if argument.startswith("--database-url")]


def test_recorder_history_is_on_an_empty_dir_without_a_storage_size(helm):
    documents = rendered(helm, "custom.recorder_storage_size=")
    spec = pod_of(documents, "recorder")
    assert {"name": "history", "emptyDir": {}} in spec["volumes"]
    assert not of_kind(documents, "PersistentVolumeClaim")


def test_rules_of_messages_are_a_file_that_only_the_recorder_mounts(helm):
    documents = rendered(
        helm, "custom.recorder_notifications_secret=told-of", "monitoring.runbooks=https://docs.example.org/alerts"
    )
    container = container_of(documents, "recorder")
    assert "--notifications-file=/etc/pyroclast/notifications/notifications.yaml" in container["args"]
    assert {"name": "notifications", "mountPath": "/etc/pyroclast/notifications", "readOnly": True} in container["volumeMounts"]
    assert '"secretName": "told-of"' in json.dumps(pod_of(documents, "recorder"))
    assert sum('"told-of"' in json.dumps(each) for each in documents) == 1
    assert "--runbooks=https://docs.example.org/alerts" in container_of(documents, "board")["args"]


def test_the_board_has_no_ingress_by_default(helm):
    assert not of_kind(rendered(helm), "Ingress")


def test_board_has_an_ingress_when_a_host_is_set(helm):
    settings = ["board_ingress_host=board.example.org", "board_ingress_class=nginx", "board_ingress_tls_secret=cert"]
    documents = rendered(helm, *(f"custom.{each}" for each in settings))
    spec = of_kind(documents, "Ingress")["pyroclast-board"]["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["board.example.org"], "secretName": "cert"}]
    (rule,) = spec["rules"]
    (path,) = rule["http"]["paths"]
    service = of_kind(documents, "Service")[path["backend"]["service"]["name"]]["spec"]
    assert (rule["host"], path["backend"]["service"]["port"]["name"]) == ("board.example.org", "board")
    assert {"name": "board", "port": 80, "targetPort": "board"} in service["ports"]


def test_board_proxy_login_mounts_the_proxy_ca_and_serves_tls(helm):
    settings = ["board_login=proxy", "board_tls_secret=board-tls", "board_proxy_ca_secret=proxy-ca", "board_proxy_names=edge"]
    settings += ["board_replicas=2", "board_ingress_host=a.example.org", "board_ingress_annotations.example\\.org/backend=HTTPS"]
    documents = rendered(helm, *(f"custom.{each}" for each in settings))
    spec = pod_of(documents, "board")
    (container,) = spec["containers"]
    settings = settings_of(documents, "board")
    assert (settings.login, settings.requestheader_allowed_names) == ("proxy", ("edge",))
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"] for volume in spec["volumes"] if "secret" in volume}
    files = {mounts[name]: [item["path"] for item in secret["items"]] for name, secret in secrets.items()}
    assert {name: secret["secretName"] for name, secret in secrets.items()} == {"proxy": "proxy-ca", "tls": "board-tls"}
    for path in (settings.page_cert_file, settings.page_key_file, settings.requestheader_client_ca_file):
        folder, _, name = path.rpartition("/")
        assert name in files[folder]
    (port,) = [each["port"] for each in of_kind(documents, "Service")["pyroclast-board-service"]["spec"]["ports"][:1]]
    assert port == 443
    assert of_kind(documents, "Ingress")["pyroclast-board"]["metadata"]["annotations"] == {"example.org/backend": "HTTPS"}


def test_board_authenticates_to_the_recorder_with_an_audience_bound_token(helm):
    spec = pod_of(rendered(helm), "board")
    (volume,) = [each for each in spec["volumes"] if each["name"] == "recorder"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "pyroclast-recorder"
    (container,) = spec["containers"]
    assert "--recorder-url=http://pyroclast-recorder-service.pyroclast-system.svc" in container["args"]
    alone = pod_of(rendered(helm, "custom.recorder_enable=false"), "board")
    assert not any("recorder" in argument for argument in alone["containers"][0]["args"])


@pytest.mark.parametrize(
    ("values", "service"),
    [
        ([], "pyroclast-scheduler-service"),
        (["custom.scheduler_replicas=2"], "pyroclast-scheduler-peers"),
        (["custom.scheduler_members=3"], "pyroclast-scheduler-peers"),
    ],
)
def test_board_reaches_every_scheduler_replica_with_an_audience_bound_token(helm, values, service):
    documents = rendered(helm, *values)
    spec = pod_of(documents, "board")
    settings = settings_of(documents, "board")
    assert settings.scheduler_url == f"http://{service}.pyroclast-system.svc:8080"
    (volume,) = [each for each in spec["volumes"] if each["name"] == "scheduler"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == AUDIENCE
    (mount,) = [each["mountPath"] for each in spec["containers"][0]["volumeMounts"] if each["name"] == "scheduler"]
    assert settings.scheduler_token_file == f"{mount}/token"
    found = of_kind(documents, "Service")[service]["spec"]
    workloads = {**of_kind(documents, "Deployment"), **of_kind(documents, "StatefulSet")}
    template = workloads["pyroclast-scheduler"]["spec"]["template"]
    assert found["selector"].items() <= template["metadata"]["labels"].items()
    (port,) = [each for each in found["ports"] if each["port"] == 8080]
    named = {each["name"]: each["containerPort"] for each in template["spec"]["containers"][0]["ports"]}
    listens = settings_of(documents, "scheduler")
    assert named[port["targetPort"]] == int(listens.listen_address.rpartition(":")[2])
    assert found.get("clusterIP") == ("None" if values else None)
    roles = of_kind(documents, "ClusterRole")
    jobs = [rule for rule in roles["pyroclast-board"]["rules"] if "jobs" in rule["resources"]]
    assert any("list" in rule["verbs"] for rule in jobs), "the scheduler answers who may list Jobs"
    reviews = [rule["resources"] for rule in roles["pyroclast-scheduler"]["rules"] if rule["verbs"] == ["create"]]
    assert ["tokenreviews"] in reviews
    assert ["subjectaccessreviews"] in reviews


def test_board_has_no_scheduler_url_when_scheduler_or_metrics_are_off(helm):
    for off in ("custom.scheduler_metrics_enable=false", "custom.scheduler_enable=false"):
        spec = pod_of(rendered(helm, off), "board")
        assert not any("--scheduler" in argument for argument in spec["containers"][0]["args"])


def test_the_board_only_reads(helm):
    rules = of_kind(rendered(helm), "ClusterRole")["pyroclast-board"]["rules"]
    reviews = [rule for rule in rules if rule["verbs"] == ["create"]]
    assert {rule["resources"][0] for rule in reviews} == {"tokenreviews", "subjectaccessreviews"}
    assert {verb for rule in rules if rule not in reviews for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert not any(word in rule[part] for rule in rules for part in ("resources", "apiGroups") for word in ("secrets", "*"))


def test_board_mounts_the_configured_session_secret_as_its_key(helm):
    spec = pod_of(rendered(helm, "custom.board_session_secret=session"), "board")
    assert {"name": "session", "secret": {"secretName": "session"}} in spec["volumes"]
    assert "--session-key-file=/var/run/secrets/pyroclast/session/key" in spec["containers"][0]["args"]


@pytest.mark.parametrize(
    ("value", "is_allowed"),
    [
        ("custom.common_labels.app=other", False),
        (r"custom.common_labels.app\.kubernetes\.io/instance=other", False),
        ("custom.common_labels.team=a b", False),
        ("custom.common_labels.team=a", True),
        ("basic.admission_secret_name=a' || true || '", False),
        ("basic.admission_secret_name=", False),
        ("custom.scheduler_name=a'] || true || 'b' in ['", False),
        ("custom.scheduler_name=other.example", True),
        ("custom.further_scheduler_names={a'] || true || 'b' in ['}", False),
        ("custom.further_scheduler_names={other.example}", True),
        ("custom.scheduler_lease_name=a: b", False),
        ("custom.job_plugins=a'", False),
        ("basic.scheduler_image_digest=sha256:1", False),
        ("basic.scheduler_image_name=a\\n  b: c", False),
    ],
)
def test_a_value_cannot_break_out_of_names_labels_and_expressions(helm, value, is_allowed):
    if is_allowed:
        assert rendered(helm, value)
        return
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(helm, value)
    assert "schema" in refused.value.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_has_a_memory_limit(helm, program):
    assert container_of(rendered(helm), program)["resources"]["limits"].keys() == {"memory"}
