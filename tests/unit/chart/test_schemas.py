"""Everything that the chart renders is what three versions of Kubernetes understand, field by field."""

import functools
import json
import subprocess

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

from tests.unit.chart import render

VERSIONS = ["1.32", "1.34", "1.36"]
OF_OTHERS = "monitoring.coreos.com/"
HERE = render.ROOT / "tests" / "unit" / "chart"
CERTS = render.ROOT / "certs"
MONITORED = {"custom": {"metrics_enable": True}}
POLICIES = {"enabled_admissions": "", "vap_enable": True, "map_enable": True}
PLACED = {
    "default_affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["system"]}]}]
            }
        }
    },
    "default_tolerations": [{"key": "system", "operator": "Exists"}],
    "scheduler_ns": {"disk": "fast"},
    "scheduler_resources": {"limits": {"cpu": 2, "memory": "4Gi"}},
    "controller_sc": {"fsGroup": 2},
    "controller_main_csc": {"runAsUser": 1000},
    "admission_podLabels": {"a": "b"},
    "admission_labels": {"c": "d"},
    "common_labels": {"team": "batch"},
}
SETS = {
    "defaults": {},
    "high availability": {
        "custom": {"controller_replicas": 2, "jobflow_replicas": 2, "scheduler_replicas": 2, "controller_shards": 2}
    },
    "policies instead of webhooks": {"custom": POLICIES},
    "no metrics": {"custom": {f"{key}_metrics_enable": False for key in ("admission", "controller", "jobflow", "scheduler")}},
    "monitoring and network policies": {
        **MONITORED,
        "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
        "monitoring": {"labels": {"release": "prometheus"}},
    },
    "a scheduler alone": {"custom": {"controller_enable": False, "admission_enable": False}},
    "webhooks by URL": {"webhook": {"url": "https://hooks.example.org", "failurePolicy": "Ignore", "timeoutSeconds": 5}},
    "two address families": {"service": {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}},
    "placed and labelled": {"custom": PLACED},
    "shards of nodes": {
        "custom": {"controller_enabled_controllers": "*", "sharding_configmap_data": "schedulerConfigs: []"},
        "basic": {"image_pull_secret": "registry", "image_registry": "registry.example.org/"},
    },
    "flows alone": {
        "custom": {"controller_enabled_controllers": "jobflow-controller", "topology_spread": "", "pdb_enable": False}
    },
    "the defaults of Volcano": yaml.safe_load((HERE / "volcano-values.yaml").read_text()),
    "cert-manager": yaml.safe_load((CERTS / "values-cert-manager.yaml").read_text()),
    "everything": {
        **MONITORED,
        "networkPolicy": {"enabled": True},
        "custom": {
            **MONITORED["custom"],
            "vap_enable": True,
            "map_enable": True,
            "owner_references_enforced": True,
            "controller_replicas": 3,
            "otel_endpoint": "http://collector:4318",
            "default_env": [{"name": "TZ", "value": "UTC"}],
            "admission_config_override": "resourceGroups:\n- resourceGroup: a\n  object: {key: namespace, value: [a]}\n",
        },
    },
}
seen: set[tuple[str, str]] = set()
"""What has been found good already: most objects are the same for most values."""


@pytest.fixture(autouse=True)
def read_once(monkeypatch):
    monkeypatch.setattr(utils, "schema_contents", cached)


cached = functools.cache(utils.schema_contents)


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_what_is_rendered_is_understood(helm, tmp_path, values):
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    names = set()
    for document in render.documents(helm, "--api-versions", "monitoring.coreos.com/v1", "--values", str(path)):
        name = (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        assert name not in names, "rendered twice"
        names.add(name)
        for version in VERSIONS:
            if (key := (version, json.dumps(document, sort_keys=True))) not in seen and understands(version, document):
                kubernetes_validate.validate(document, version, strict=True)
                seen.add(key)


def understands(version, document):
    """Kinds of others have no schema here; defaults by policy are a beta until 1.36."""
    if document["apiVersion"].startswith(OF_OTHERS):
        return False
    return not (document["kind"].startswith("MutatingAdmissionPolicy") and version != VERSIONS[-1])


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_helm_finds_nothing_wrong(helm, tmp_path, values):
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    linted = subprocess.run(
        [helm, "lint", "--strict", str(render.CHART), "--values", str(path)], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
