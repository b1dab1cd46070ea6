"""The CRDs that are drawn from the models."""

import json
import re
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from pyroclast.api import builtin, crd_files, crds, hyperjobs
from pyroclast.api.crds import structural_schema
from pyroclast_standalone.apiserver.documents.schema_rules import Rules

BASES = Path(__file__).parents[3] / "charts" / "pyroclast" / "crd" / "bases"
DEFINITIONS = {definition["metadata"]["name"]: definition for definition in crds.custom_resource_definitions()}
MAXIMUM_BYTES = 256 * 1024


def schema_of(name):
    return DEFINITIONS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def at(name, path):
    """The schema at `path`; `*` stands for the items of a list or the values of a map."""
    node = schema_of(name)
    for part in path.split("."):
        node = (node.get("items") or node["additionalProperties"]) if part == "*" else node["properties"][part]
    return node


@pytest.mark.parametrize("name", DEFINITIONS)
def test_checked_in_crd_files_equal_the_crds_generated_from_the_models(name):
    file = BASES / crd_files.file_name(DEFINITIONS[name])
    wanted = crd_files.render(DEFINITIONS[name])
    assert file.read_text() == wanted, "stale: run `python -m pyroclast.api.crd_files charts/pyroclast/crd/bases`"
    assert yaml.load(file.read_text(), yaml.CSafeLoader) == DEFINITIONS[name]


def test_crd_directory_has_one_file_per_crd():
    assert len(list(BASES.iterdir())) == len(DEFINITIONS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_crd_fits_into_an_annotation(name):
    assert len(json.dumps(DEFINITIONS[name], separators=(",", ":"))) < MAXIMUM_BYTES


@pytest.mark.parametrize(
    ("name", "scope", "short_names", "columns", "subresources"),
    [
        (
            "jobs.batch.volcano.sh",
            "Namespaced",
            ["vcjob", "vj"],
            ["STATUS:string", "minAvailable:integer", "RUNNINGS:integer", "AGE:date", "QUEUE:string:1"],
            {"status": {}},
        ),
        ("cronjobs.batch.volcano.sh", "Namespaced", ["cronvcjob", "cronvj"], [], {"status": {}}),
        ("commands.bus.volcano.sh", "Namespaced", [], [], {}),
        (
            "podgroups.scheduling.volcano.sh",
            "Namespaced",
            ["pg", "podgroup-v1beta1"],
            ["STATUS:string", "minMember:integer", "RUNNINGS:integer", "AGE:date", "QUEUE:string:1"],
            {},
        ),
        ("queues.scheduling.volcano.sh", "Cluster", ["q", "queue-v1beta1"], ["PARENT:string"], {"status": {}}),
        ("jobflows.flow.volcano.sh", "Namespaced", ["jf"], ["Status:string", "Age:date"], {"status": {}}),
        ("jobtemplates.flow.volcano.sh", "Namespaced", ["jt"], [], {"status": {}}),
        (
            "hypernodes.topology.volcano.sh",
            "Cluster",
            ["hn"],
            ["Tier:string", "TierName:string", "NodeCount:integer", "Age:date"],
            {"status": {}},
        ),
        ("numatopologies.nodeinfo.volcano.sh", "Cluster", ["numatopo"], [], {}),
        ("nodeshards.shard.volcano.sh", "Cluster", ["nsh"], ["AGE:date"], {"status": {}}),
        ("colocationconfigurations.config.volcano.sh", "Namespaced", [], [], {"status": {}}),
    ],
)
def test_crd_has_scope_short_names_columns_and_subresources_of_its_kind(name, scope, short_names, columns, subresources):
    definition = DEFINITIONS[name]
    spec = definition["spec"]
    (version,) = spec["versions"]
    assert spec["scope"] == scope
    assert spec["names"].get("shortNames", []) == short_names
    assert spec["names"]["listKind"] == spec["names"]["kind"] + "List"
    shown = [
        ":".join(str(part) for part in (column["name"], column["type"], column.get("priority")) if part)
        for column in version.get("additionalPrinterColumns", [])
    ]
    assert shown == columns
    assert version["subresources"] == subresources
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
INT32 = {"type": "integer", "format": "int32"}
COUNT = INT32 | {"minimum": 0}


@pytest.mark.parametrize(
    ("name", "path", "want"),
    [
        ("jobs", "spec.queue", {"type": "string", "default": "default", "maxLength": 253, "pattern": SUBDOMAIN}),
        ("jobs", "spec.schedulerName", {"type": "string", "maxLength": 63}),
        ("jobs", "spec.maxRetry", COUNT | {"default": 3}),
        ("jobs", "spec.minSuccess", INT32 | {"minimum": 1}),
        ("jobs", "spec.ttlSecondsAfterFinished", COUNT),
        ("jobs", "spec.plugins.*.*", {"type": "string"}),
        ("jobs", "spec.tasks.*.minAvailable", COUNT),
        (
            "jobs",
            "spec.tasks.*.name",
            {"type": "string", "maxLength": 63, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        ),
        (
            "jobs",
            "spec.tasks.*.topologyPolicy",
            {"type": "string", "enum": ["none", "best-effort", "restricted", "single-numa-node"]},
        ),
        ("jobs", "spec.tasks.*.dependsOn.iteration", {"type": "string"}),
        ("jobs", "spec.tasks.*.partitionPolicy.totalPartitions", INT32 | {"minimum": 1}),
        ("jobs", "spec.tasks.*.partitionPolicy.minPartitions", COUNT | {"default": 0}),
        ("jobs", "spec.networkTopology.mode", {"type": "string", "enum": ["hard", "soft"], "default": "hard"}),
        ("jobs", "spec.networkTopology.highestTierAllowed", {"type": "integer", "minimum": 0}),
        ("jobs", "spec.volumes.*.mountPath", {"type": "string", "minLength": 1, "pattern": "^[^:]+$"}),
        ("jobs", "spec.volumes.*.volumeClaimName", {"type": "string", "maxLength": 253}),
        ("jobs", "status.conditions.*.status", {"type": "string"}),
        ("jobs", "status.taskStatusCount.*.phase.*", INT32),
        ("jobs", "status.observedGeneration", {"type": "integer", "format": "int64"}),
        (
            "jobs",
            "status.state.phase",
            {
                "type": "string",
                "enum": [
                    "Pending",
                    "Aborting",
                    "Aborted",
                    "Running",
                    "Restarting",
                    "Completing",
                    "Completed",
                    "Terminating",
                    "Terminated",
                    "Failed",
                ],
            },
        ),
        (
            "jobs",
            "spec.policies.*.event",
            {
                "type": "string",
                "enum": [
                    "*",
                    "PodPending",
                    "PodRunning",
                    "PodFailed",
                    "PodEvicted",
                    "Unknown",
                    "TaskCompleted",
                    "OutOfSync",
                    "CommandIssued",
                    "JobUpdated",
                    "TaskFailed",
                ],
            },
        ),
        ("cronjobs", "spec.concurrencyPolicy", {"type": "string", "enum": ["Allow", "Forbid", "Replace"], "default": "Allow"}),
        ("cronjobs", "spec.suspend", {"type": "boolean", "default": False}),
        ("cronjobs", "spec.startingDeadlineSeconds", {"type": "integer", "format": "int64", "minimum": 0}),
        (
            "cronjobs",
            "spec.jobTemplate.spec.queue",
            {"type": "string", "default": "default", "maxLength": 253, "pattern": SUBDOMAIN},
        ),
        ("podgroups", "spec.minMember", COUNT),
        ("podgroups", "spec.minTaskMember.*", INT32),
        ("podgroups", "spec.subGroupPolicy.*.subGroupSize", INT32 | {"default": 1, "minimum": 1}),
        ("podgroups", "status.conditions.*.transitionID", {"type": "string"}),
        ("podgroups", "status.phase", {"type": "string", "enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]}),
        ("queues", "spec.weight", INT32 | {"default": 1, "minimum": 1, "maximum": 65535}),
        ("queues", "spec.dequeueStrategy", {"type": "string", "enum": ["fifo", "traverse"], "default": "traverse"}),
        ("queues", "spec.reclaimable", {"type": "boolean"}),
        ("queues", "status.state", {"type": "string", "enum": ["Open", "Closed", "Closing", "Unknown"]}),
        ("jobflows", "spec.jobRetainPolicy", {"type": "string", "enum": ["retain", "delete"]}),
        ("jobflows", "spec.flows.*.name", {"type": "string", "minLength": 1}),
        ("jobflows", "spec.flows.*.dependsOn.strategy", {"type": "string", "enum": ["all", "any"]}),
        ("jobflows", "spec.flows.*.dependsOn.probe.tcpSocketList.*.port", {"type": "integer", "minimum": 0, "maximum": 65535}),
        ("jobflows", "spec.flows.*.patch.spec", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ("jobflows", "spec.flows.*.else.*", {"type": "string"}),
        (
            "jobflows",
            "status.state.phase",
            {"type": "string", "enum": ["Succeed", "Terminating", "Failed", "Running", "Pending"]},
        ),
        ("jobflows", "status.conditions.*.createTime", {"type": "string", "format": "date-time"}),
        ("hypernodes", "spec.tier", {"type": "integer", "minimum": 0}),
        ("hypernodes", "status.nodeCount", {"type": "integer", "format": "int64", "minimum": 0}),
        ("numatopologies", "spec.numares.*.allocatable", {"type": "string"}),
        (
            "colocationconfigurations",
            "spec.memoryQos.highRatio",
            {"type": "integer", "minimum": 0, "maximum": 100, "default": 100},
        ),
    ],
)
def test_fields_have_the_limits_of_the_api(name, path, want):
    (full,) = (known for known in DEFINITIONS if known.startswith(name + "."))
    found = dict(at(full, path))
    found.pop("description", None)
    assert found == want


@pytest.mark.parametrize(
    ("name", "path", "want"),
    [
        ("jobs.batch.volcano.sh", "spec.volumes.*", ["mountPath"]),
        ("jobs.batch.volcano.sh", "spec.tasks.*.partitionPolicy", ["partitionSize"]),
        ("jobs.batch.volcano.sh", "status.conditions.*", ["status"]),
        ("cronjobs.batch.volcano.sh", "spec", ["jobTemplate", "schedule"]),
        ("cronjobs.batch.volcano.sh", "spec.jobTemplate", []),
        ("commands.bus.volcano.sh", "target", ["apiVersion", "kind", "name", "uid"]),
        ("jobflows.flow.volcano.sh", "spec.flows.*", ["name"]),
        ("jobflows.flow.volcano.sh", "spec.flows.*.dependsOn.probe.httpGetList.*.httpHeader", ["name", "value"]),
        ("hypernodes.topology.volcano.sh", "spec", ["tier"]),
        ("hypernodes.topology.volcano.sh", "spec.members.*", ["type"]),
        ("nodeshards.shard.volcano.sh", "spec", ["nodesDesired"]),
    ],
)
def test_crd_objects_require_the_fields_that_the_api_requires(name, path, want):
    assert sorted(at(name, path).get("required", [])) == want


def test_only_nodeshards_and_colocation_configurations_require_a_spec():
    wanted = {"nodeshards.shard.volcano.sh": ["spec"], "colocationconfigurations.config.volcano.sh": ["spec"]}
    assert {name: schema_of(name)["required"] for name in DEFINITIONS if "required" in schema_of(name)} == wanted


def test_job_needs_at_least_one_task_and_hypernode_at_least_one_member():
    assert at("jobs.batch.volcano.sh", "spec.tasks")["minItems"] == 1
    assert at("hypernodes.topology.volcano.sh", "spec.members")["minItems"] == 1


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_hypernode_member_selector_is_valid_with_exactly_one_match_type(count):
    given = {"exactMatch": {"name": "n"}, "regexMatch": {"pattern": "n"}, "labelMatch": {"matchLabels": {"a": "b"}}}
    wanted = {
        0: ["Either ExactMatch or RegexMatch or LabelMatch must be specified"],
        1: [],
    }.get(count, ["Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"])
    rules = Rules(at("hypernodes.topology.volcano.sh", "spec.members.*.selector"), is_root=True)
    for chosen in combinations(given.items(), count):
        errors = []
        rules.check(dict(chosen), None, errors, [])
        assert [error.detail for error in errors] == wanted


def test_crd_lists_and_maps_have_the_merge_types_of_the_api():
    assert at("commands.bus.volcano.sh", "target")["x-kubernetes-map-type"] == "atomic"
    assert at("cronjobs.batch.volcano.sh", "status.active")["x-kubernetes-list-type"] == "atomic"
    assert at("podgroups.scheduling.volcano.sh", "spec.subGroupPolicy.*.matchLabelKeys")["x-kubernetes-list-type"] == "atomic"
    assert at("podgroups.scheduling.volcano.sh", "spec.subGroupPolicy.*.labelSelector")["x-kubernetes-map-type"] == "atomic"
    conditions = at("colocationconfigurations.config.volcano.sh", "status.conditions")
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    assert "x-kubernetes-list-type" not in at("hypernodes.topology.volcano.sh", "status.conditions")


def test_pod_template_and_volume_claim_of_a_job_have_the_built_in_schemas():
    template = dict(at("jobs.batch.volcano.sh", "spec.tasks.*.template"))
    assert template.pop("description")
    assert template == builtin.structural_schema(builtin.POD_TEMPLATE)
    claim = dict(at("jobs.batch.volcano.sh", "spec.volumes.*.volumeClaim"))
    assert claim.pop("description")
    assert claim == builtin.structural_schema(builtin.PVC_SPEC)


def test_job_template_spec_has_the_fields_of_a_job_spec():
    assert at("jobtemplates.flow.volcano.sh", "spec")["properties"] == at("jobs.batch.volcano.sh", "spec")["properties"]


UNTYPED = ("int-or-string", "preserve-unknown-fields")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_field_of_ours_is_described_and_typed_and_no_default_of_none_is_left(name):
    def walk(node, path):
        assert "type" in node or any(node.get(f"x-kubernetes-{each}") for each in UNTYPED), path
        assert "$ref" not in node
        assert node.get("default", "") is not None, path
        for field, inner in node.get("properties", {}).items():
            where = f"{path}.{field}"
            assert where == ".metadata" or re.search(r"\w", inner.get("description", "")), where
            if field in ("template", "volumeClaim", "patch", "labelSelector", "labelMatch", "selector"):
                continue
            walk(inner, where)
        for key in ("items", "additionalProperties"):
            if key in node:
                walk(node[key], f"{path}.*")

    walk(schema_of(name), "")


def test_crd_generator_writes_one_file_for_each_kind(tmp_path):
    crd_files.main(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(file.name for file in BASES.iterdir())


def test_kinds_without_a_crd_have_a_schema_all_the_same():
    schema = structural_schema(hyperjobs.HyperJob)
    assert schema["properties"]["spec"]["type"] == "object"
    assert schema["properties"]["status"]["description"]


def test_a_hyper_job_is_made_of_jobs():
    body = {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": {"queue": "q"}, "splitPolicy": {"mode": "auto"}}]}}
    job = hyperjobs.HyperJob.model_validate(body)
    assert job.spec.replicated_jobs[0].template_spec.queue == "q"
    assert job.spec.replicated_jobs[0].replicas == 1


def test_model_accepts_python_field_names_and_dumps_api_field_names():
    (model,) = (kind.model for kind in crds.KINDS if kind.resource.kind == "Command")
    made = model(action="AbortJob", target={"api_version": "v", "kind": "Job", "name": "a", "uid": "u"})
    assert made.model_dump(by_alias=True, exclude_none=True) == {
        "action": "AbortJob",
        "target": {"apiVersion": "v", "kind": "Job", "name": "a", "uid": "u"},
    }
