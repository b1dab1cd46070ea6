"""Sets of values that users install the chart with: each is rendered, judged, and installed on a whole control plane."""

from __future__ import annotations

from typing import Any

import yaml

from tests.unit.chart import render

__all__ = ["SETS"]

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
SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "high availability": {
        "custom": {"controller_replicas": 2, "jobflow_replicas": 2, "scheduler_replicas": 2, "controller_shards": 2}
    },
    "policies instead of webhooks": {"custom": POLICIES},
    "no metrics": {
        "custom": {
            f"{key}_metrics_enable": False for key in ("admission", "board", "controller", "jobflow", "recorder", "scheduler")
        }
    },
    "monitoring and network policies": {
        **MONITORED,
        "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
        "monitoring": {"labels": {"release": "prometheus"}},
    },
    "without native workloads": {"nativeWorkloads": {"enabled": False}},
    "native workloads both ways": {"nativeWorkloads": {"publish": True}},
    "namespaces choose a scheduler": {"custom": {"namespace_scheduler_enable": True}},
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
    "unknown plugins skipped": {"custom": {"scheduler_skip_unknown_plugins": True}},
    "bound pods": {"custom": {"place_before_pods": False}},
    "Jobs of one pod without PodGroups": {"custom": {"one_pod_without_group": True}},
    "several schedulers": {"custom": {"scheduler_members": 2, "scheduler_log_level": 5}},
    "as skaffold develops": {
        "custom": {
            "reload_enable": True,
            "default_csc": {"readOnlyRootFilesystem": False},
            "default_sc": {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0},
        }
    },
    "cert-manager": yaml.safe_load((CERTS / "values-cert-manager.yaml").read_text()),
    "everything": {
        **MONITORED,
        "networkPolicy": {"enabled": True},
        "custom": {
            **MONITORED["custom"],
            "vap_enable": True,
            "map_enable": True,
            "owner_references_enforced": True,
            "priority_class_name": "system-node-critical",
            "priority_classes": [{"name": "high", "value": 1_000_000, "description": "Before others.", "globalDefault": False}],
            "controller_replicas": 3,
            "otel_endpoint": "http://collector:4318",
            "default_env": [{"name": "TZ", "value": "UTC"}],
            "admission_config_override": "resourceGroups:\n- resourceGroup: a\n  object: {key: namespace, value: [a]}\n",
        },
    },
}
"""Values by what they are for."""
