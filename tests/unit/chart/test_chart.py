"""The Helm chart: what it renders, and that the package data is what it renders."""

import subprocess

import pytest

from pyroclast.api import crds
from pyroclast.runtime import startup
from pyroclast.runtime.settings import parse
from pyroclast_admission import handlers
from tests.unit.chart import render, values_schema

KEPT = render.parsed(render.RENDERED.read_text())
KEYS = {
    "admission": "admission",
    "board": "board",
    "controllers": "controller",
    "jobflow": "jobflow",
    "recorder": "recorder",
    "scheduler": "scheduler",
}
"""Programs, and the prefix of their values."""
PROGRAMS = tuple(KEYS)
WRITERS = tuple(program for program in KEYS if program != "board")
"""Programs that write anything."""


def of_kind(documents, kind):
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


def pod_of(documents, program):
    """The spec of the pods of a program."""
    workloads = {**of_kind(documents, "Deployment"), **of_kind(documents, "StatefulSet")}
    return workloads[f"pyroclast-{program}"]["spec"]["template"]["spec"]


def container_of(documents, program):
    (container,) = pod_of(documents, program)["containers"]
    return container


def settings_of(documents, program):
    """What a program makes of its arguments."""
    return parse(values_schema.SETTINGS[KEYS[program]], container_of(documents, program)["args"], program)


def rendered(helm, *settings):
    options = [option for setting in settings for option in ("--set", setting)]
    return render.documents(helm, *options)


def test_the_package_data_is_what_helm_renders(helm):
    assert render.RENDERED.read_text() == render.rendered(helm), "stale: run `python -m tests.unit.chart.render`"


def test_the_package_data_holds_the_crds_of_the_models():
    found = {document["metadata"]["name"]: document for document in KEPT if document["kind"] == "CustomResourceDefinition"}
    assert found == {document["metadata"]["name"]: document for document in crds.custom_resource_definitions()}


def test_every_object_is_in_the_namespace_of_the_release_or_in_none_but_the_role_for_the_gang_of_helm_test():
    places = {(document["metadata"].get("namespace"), document["kind"]) for document in KEPT}
    elsewhere = {place for place in places if place[0] not in {None, render.NAMESPACE}}
    assert elsewhere == {("default", "Role"), ("default", "RoleBinding")}


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_has_a_service_account_a_hardened_deployment_and_a_service(program):
    name = f"pyroclast-{program}"
    assert name in of_kind(KEPT, "ServiceAccount")
    assert f"{name}-service" in of_kind(KEPT, "Service")
    spec = of_kind(KEPT, "Deployment")[name]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == name
    assert spec["securityContext"]["runAsNonRoot"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["startupProbe"]["exec"]["command"][:3] == ["python", "-m", startup.__name__]
    assert float(container["startupProbe"]["exec"]["command"][4]) < container["startupProbe"]["timeoutSeconds"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}
    for kind in ("ClusterRoleBinding", *(("RoleBinding",) if program in WRITERS else ())):
        binding = of_kind(KEPT, kind)[f"{name}-role"]
        assert binding["roleRef"]["name"] == name
        assert [subject["name"] for subject in binding["subjects"]] == [name]


def test_services_select_the_pods_of_their_deployment():
    for program in PROGRAMS:
        service = of_kind(KEPT, "Service")[f"pyroclast-{program}-service"]["spec"]
        pod = of_kind(KEPT, "Deployment")[f"pyroclast-{program}"]["spec"]["template"]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        offered = {each["name"] for each in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["ports"]} == offered - {"healthz"}


def test_no_role_has_a_wildcard():
    for kind in ("ClusterRole", "Role"):
        for name, role in of_kind(KEPT, kind).items():
            for rule in role["rules"]:
                assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], name


def test_the_admission_service_may_change_its_own_webhook_configurations_only():
    ours = {name for kind in ("Mutating", "Validating") for name in of_kind(KEPT, f"{kind}WebhookConfiguration")}
    rules = of_kind(KEPT, "ClusterRole")["pyroclast-admission"]["rules"]
    named = [rule["resourceNames"] for rule in rules if rule["apiGroups"] == ["admissionregistration.k8s.io"]]
    assert {name for names in named for name in names} == ours
    assert len(named) == 2


WEBHOOKS = {
    "/jobs/mutate": ("mutatejob.volcano.sh", "jobs", ["CREATE"]),
    "/jobs/restore": ("restorejob.volcano.sh", "jobs", ["UPDATE"]),
    "/jobs/validate": ("validatejob.volcano.sh", "jobs", ["CREATE", "UPDATE"]),
    "/cronjobs/validate": ("validatecronjob.volcano.sh", "cronjobs", ["CREATE", "UPDATE"]),
    "/podgroups/mutate": ("mutatepodgroup.volcano.sh", "podgroups", ["CREATE"]),
    "/podgroups/restore": ("restorepodgroup.volcano.sh", "podgroups", ["UPDATE"]),
    "/podgroups/validate": ("validatepodgroup.volcano.sh", "podgroups", ["CREATE", "UPDATE"]),
    "/queues/mutate": ("mutatequeue.volcano.sh", "queues", ["CREATE"]),
    "/queues/validate": ("validatequeue.volcano.sh", "queues", ["CREATE", "UPDATE", "DELETE"]),
    "/pods/mutate": ("mutatepod.volcano.sh", "pods", ["CREATE"]),
    "/pods/validate": ("validatepod.volcano.sh", "pods", ["CREATE"]),
    "/hypernodes/validate": ("validatehypernode.volcano.sh", "hypernodes", ["CREATE", "UPDATE"]),
    "/jobflows/validate": ("validatejobflow.volcano.sh", "jobflows", ["CREATE", "UPDATE", "DELETE"]),
    "/jobtemplates/validate": ("validatejobtemplate.volcano.sh", "jobtemplates", ["CREATE", "UPDATE", "DELETE"]),
    "/commands/mutate": ("mutatecommand.pyroclast.dev", "commands", ["CREATE"]),
    "/commands/validate": ("validatecommand.volcano.sh", "commands", ["CREATE", "UPDATE"]),
    "/ownedjobs/validate": ("validateownedjob.pyroclast.dev", "jobs", ["CREATE"]),
    "/batchjobs/validate": ("warnofjob.pyroclast.dev", "jobs", ["CREATE"]),
    "/nativegroups/validate": ("warnofpodgroup.pyroclast.dev", "podgroups", ["CREATE"]),
    "/workloads/validate": ("validatequeueuse.pyroclast.dev", "pods", ["CREATE", "UPDATE"]),
}


def webhooks_of(documents):
    found = {}
    for document in documents:
        if document["kind"].endswith("WebhookConfiguration"):
            (webhook,) = document["webhooks"]
            path = webhook["clientConfig"]["service"]["path"]
            assert document["metadata"]["name"] == "pyroclast-admission-service" + path.replace("/", "-")
            assert document["kind"].startswith("Mutating" if path.endswith(("mutate", "restore")) else "Validating")
            rule = webhook["rules"][0]
            found[path] = (webhook["name"], rule["resources"][0], rule["operations"])
    return found


def test_the_webhooks_that_the_admission_service_serves_are_called_by_default():
    served = {webhook.path: (webhook.name, webhook.resource.plural, list(webhook.operations)) for webhook in handlers.WEBHOOKS}
    optional = [webhook for webhook in handlers.WEBHOOKS if webhook.is_optional]
    served = {path: each for path, each in served.items() if path not in {webhook.path for webhook in optional}}
    assert webhooks_of(KEPT) == served
    called = {
        hook["name"]: {(*rule["apiGroups"], *rule["resources"]) for rule in hook["rules"]}
        for each in KEPT
        if each["kind"].endswith("WebhookConfiguration")
        for hook in each["webhooks"]
    }
    assert called == {
        webhook.name: {(kind.group, kind.plural) for kind in (webhook.resource, *webhook.others)}
        for webhook in handlers.WEBHOOKS
        if webhook not in optional
    }


def test_checked_access_to_queues_calls_the_webhooks_that_check_it_whatever_else_is_enabled(helm):
    documents = rendered(helm, "webhook.queueAccess=checked", "custom.enabled_admissions=/queues/validate")
    assert "--queue-access=checked" in container_of(documents, "admission")["args"]
    checking = {webhook.path for webhook in handlers.WEBHOOKS if webhook.uses_queues}
    assert webhooks_of(documents).keys() == checking | {"/queues/validate", "/commands/mutate", "/commands/validate"}
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render.render(helm, "--set", "webhook.queueAccess=checked,custom.admission_enable=false,custom.vap_enable=true")
    assert "nobody would ask who may use a queue" in caught.value.stderr


def test_only_warning_webhooks_ignore_failures_and_time_out_within_two_seconds():
    hooks = [each["webhooks"][0] for each in KEPT if each["kind"] == "ValidatingWebhookConfiguration"]
    told = {hook["name"]: (hook["failurePolicy"], hook["timeoutSeconds"]) for hook in hooks}
    advice = {webhook.name for webhook in handlers.WEBHOOKS if webhook.is_advice}
    assert {name for name, (policy, seconds) in told.items() if policy == "Ignore" and seconds <= 2} == advice


def test_all_webhooks_can_be_switched_on(helm):
    paths = "\\,".join(WEBHOOKS)
    assert webhooks_of(rendered(helm, f"custom.enabled_admissions={paths}")) == WEBHOOKS


def test_webhooks_are_called_by_url_when_webhook_url_is_set(helm):
    for document in rendered(
        helm, "webhook.url=https://hooks.example.org:9443/", "webhook.failurePolicy=Ignore", "webhook.timeoutSeconds=3"
    ):
        if document["kind"] == "ValidatingWebhookConfiguration":
            (webhook,) = document["webhooks"]
            assert webhook["clientConfig"]["url"].startswith("https://hooks.example.org:9443/")
            assert "service" not in webhook["clientConfig"]
            seconds = 2 if webhook["name"].startswith("warnof") else 3
            assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", seconds)


def test_webhooks_require_the_client_certificate_that_the_values_name(helm):
    documents = rendered(helm, "webhook.clientCaSecret=authority", r"webhook.clientNames=a\,b")
    container = container_of(documents, "admission")
    folder = "/admission.local.config/client-ca"
    wanted = {f"--client-ca-file={folder}/ca.crt", "--client-name=a", "--client-name=b"}
    assert wanted <= set(container["args"])
    assert folder in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_startup_probe_asks_at_the_address_on_which_the_programs_listen(helm):
    container = container_of(rendered(helm, "custom.bind_address=$(POD_IP)"), "scheduler")
    assert "--healthz-address=$(POD_IP):11251" in container["args"]
    assert container["startupProbe"]["exec"]["command"][3] == "http://$(POD_IP):11251/readyz"


def test_admission_uses_the_mounted_ca_and_needs_no_secret_role_with_given_certificates(helm):
    documents = rendered(helm, "webhook.certificates=secret")
    container = container_of(documents, "admission")
    assert "--ca-cert-file=/admission.local.config/certificates/ca.crt" in container["args"]
    assert "pyroclast-admission" not in of_kind(documents, "Role")
    for probe in ("livenessProbe", "readinessProbe"):
        assert container["startupProbe"]["exec"]["command"][3].startswith("https:")
        assert container[probe]["httpGet"]["scheme"] == "HTTPS", "with all three files health is served over TLS, too"


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_understands_its_arguments(program):
    settings = settings_of(KEPT, program)
    assert settings.enable_healthz
    assert settings.healthz_address == ":11251"
    assert settings.enable_metrics
    if program != "admission":
        assert settings.lease_namespace == render.NAMESPACE


def test_controllers_may_update_finalizers_when_owner_references_are_enforced(helm):
    def resources(documents):
        return {
            resource
            for rule in of_kind(documents, "ClusterRole")["pyroclast-controllers"]["rules"]
            for resource in rule["resources"]
        }

    more = resources(rendered(helm, "custom.owner_references_enforced=true")) - resources(KEPT)
    assert more == {"jobs/finalizers", "cronjobs/finalizers", "hyperjobs/finalizers"}


def test_external_job_plugins_are_passed_to_webhook_and_admission_policy(helm):
    documents = rendered(helm, r"custom.job_plugins=stamp\, audit", "custom.vap_enable=true")
    container = container_of(documents, "admission")
    assert "--job-plugins=stamp,audit" in container["args"]
    policy = of_kind(documents, "ValidatingAdmissionPolicy")["pyroclast-job-validation-policy"]
    assert '+ ["stamp", "audit"]' in str(policy["spec"]["validations"])


@pytest.mark.parametrize(
    "wrong", ["webhook.failurePolicy=Maybe", "webhook.certificates=none", "custom.scheduler_replicas=-1", "custom.nonsense=1"]
)
def test_helm_rejects_invalid_values_and_names_the_field(helm, wrong):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render.render(helm, "--set", wrong)
    assert wrong.partition("=")[0].rpartition(".")[2] in caught.value.stderr


def test_values_schema_file_equals_the_schema_generated_from_the_values():
    assert values_schema.SCHEMA.read_text() == values_schema.draw(), "stale: run `python -m tests.unit.chart.values_schema`"
