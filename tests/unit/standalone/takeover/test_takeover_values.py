"""What the check calls kept is in effect: its values pass through the chart to the programs' own parsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast.api.types import STATEFUL_SETS, Key
from pyroclast_standalone.takeover import command
from pyroclast_standalone.takeover.inventory import Inventory, Program, _is_of_volcano, _name_of, _program
from pyroclast_standalone.takeover.review import COUNTERPARTS, Effect, chart_values
from tests.unit.chart import render
from tests.unit.chart.conftest import helm
from tests.unit.chart.test_chart import container_of, settings_of

__all__ = ["helm"]

COMMON = {
    "--master": "https://api.example.org",
    "--kubeconfig": "/a",
    "--leader-elect": "true",
    "--leader-elect-lease-duration": "20s",
    "--leader-elect-renew-deadline": "15s",
    "--leader-elect-retry-period": "3s",
    "--leader-elect-resource-lock": "leases",
    "--leader-elect-resource-namespace": "volcano-system",
    "--leader-elect-resource-name": "mine",
    "--lock-object-namespace": "a",
    "--ca-cert-file": "/a",
    "--tls-cert-file": "/a",
    "--tls-private-key-file": "/a",
    "--enable-healthz": "true",
    "--healthz-address": ":1",
    "--enable-metrics": "true",
    "--listen-address": ":2",
    "--log-flush-frequency": "5s",
    "--kube-api-qps": "70",
    "--kube-api-burst": "80",
    "--scheduler-name": "volcano-prod",
    "--version": "false",
}
FLAGS = {
    "vc-scheduler": {
        **COMMON,
        "--scheduler-conf": "/volcano.scheduler/volcano-scheduler.conf",
        "--schedule-period": "500ms",
        "--resync-period": "1s",
        "--default-queue": "batch",
        "--enable-pprof": "true",
        "--priority-class": "false",
        "--csi-storage": "false",
        "--plugins-dir": "/plugins",
        "--minimum-feasible-nodes": "7",
        "--minimum-percentage-nodes-to-find": "8",
        "--percentage-nodes-to-find": "30",
        "--node-selector": "pool:batch",
        "--cache-dumper": "false",
        "--cache-dump-dir": "/dump",
        "--node-worker-threads": "3",
        "--gate-removal-worker-num": "2",
        "--ignored-provisioners": "rancher.io/local-path",
        "--resource-sync-timeout": "30s",
        "--disable-default-scheduler-config": "true",
        "--scheduler-sharding-mode": "soft",
        "--scheduler-sharding-name": "mine",
        "--feature-gates": "ResourceTopology=false",
    },
    "vc-controller-manager": {
        **COMMON,
        "--worker-threads": "10",
        "--worker-threads-for-cronjob": "4",
        "--worker-threads-for-podgroup": "6",
        "--worker-threads-for-queue": "7",
        "--worker-threads-for-gc": "8",
        "--max-requeue-num": "20",
        "--controllers": "*,-cronjob-controller",
        "--inherit-owner-annotations": "false",
        "--scheduler-configs": "volcano:volcano:0.0:0.6:false:2:100",
        "--shard-sync-period": "90s",
        "--enable-node-event-trigger": "false",
        "--sharding-configmap": "a",
        "--sharding-configmap-namespace": "b",
        "--feature-gates": "CronVolcanoJobSupport=true",
    },
    "vc-webhook-manager": {
        **COMMON,
        "--port": "9443",
        "--webhook-namespace": "volcano-system",
        "--webhook-service-name": "volcano-admission-service",
        "--webhook-url": "https://a.example.org",
        "--enabled-admission": "/jobs/mutate,/jobs/validate",
        "--admission-conf": "/admission.local.config/configmap/volcano-admission.conf",
        "--graceful-shutdown-time": "40s",
        "--enable-queue-allocated-pods-check": "true",
        "--max-queue-depth": "4",
        "--enable-root-queue-protection": "false",
        "--feature-gates": "NodeSelectorValidation=true",
    },
}
"""Each flag of Volcano's programs, with a value that is not its default."""
UNREPORTED = {
    "--log-flush-frequency",
    "--leader-elect",
    "--enable-healthz",
    "--enable-metrics",
    "--admission-conf",
    "--scheduler-conf",
}
"""Flags without a row: those about logging, and those that our chart gives with the same text."""
SETTINGS = {"vc-scheduler": "scheduler", "vc-controller-manager": "controllers", "vc-webhook-manager": "admission"}
PLACEMENT = {
    "nodeSelector": {"role": "infra"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "registry"}],
}
CONFIGURATIONS = {
    "volcano-scheduler.conf": 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n',
    "volcano-admission.conf": "resourceGroups: [{resourceGroup: a, object: {key: namespace, value: [b]}}]\n",
    "sharding.yaml": "schedulerConfigs:\n- {name: a, type: volcano, policies: [{name: node-limit, arguments: {maxNodes: 9}}]}\n",
}


def installed() -> Inventory:
    return Inventory(
        programs=tuple(
            Program(Key("v", name), name, f"a/{name}:v1", 2, tuple(map("=".join, flags.items())), pod=PLACEMENT)
            for name, flags in FLAGS.items()
        ),
        configurations={(Key("v", "c"), file): text for file, text in CONFIGURATIONS.items()},
    )


async def test_every_flag_of_volcano_that_is_kept_reaches_our_programs_and_no_other_is_called_kept(
    helm: Path, tmp_path: Path
) -> None:
    findings = await command._review(installed())
    assert not [finding for finding in findings if finding.effect is Effect.LOST]
    file = tmp_path / "values.yaml"
    file.write_text(yaml.dump(chart_values(findings)))
    documents = render.documents(helm, "--values", str(file))
    for name, flags in FLAGS.items():
        settings, words = settings_of(documents, SETTINGS[name]), container_of(documents, SETTINGS[name])["args"]
        effects = {each.name.split()[-1]: each.effect for each in findings if each.part == "flag" and f"v/{name} " in each.name}
        assert {flag for flag in flags if flag not in effects} <= UNREPORTED
        for flag, text in flags.items():
            if effects.get(flag) is Effect.KEPT:
                assert f"{flag}={text}" in words, f"{name} {flag} is kept, and not in effect"
                field = type(settings).model_fields[flag.removeprefix("--").replace("-", "_")]
                assert not str(field.description).startswith("no effect"), f"{name} {flag}"


@pytest.mark.parametrize("file", CONFIGURATIONS)
async def test_every_configuration_of_volcano_is_a_value_with_its_text(file: str) -> None:
    values = chart_values(await command._review(installed()))
    assert CONFIGURATIONS[file] in values["custom"].values()


@pytest.mark.parametrize(
    ("name", "container", "labels"),
    [
        ("vc-scheduler", {"image": "a/batch:1", "args": ["--scheduler-conf=/a", "--v=3"]}, set()),
        ("vc-scheduler", {"image": "a/batch:1", "command": ["/opt/vc-scheduler"]}, set()),
        ("vc-scheduler", {"image": "a/batch:1", "command": ["sh", "-c", "/vc-scheduler --v=3 2>&1"]}, set()),
        ("vc-scheduler", {"image": "a/batch:1", "args": ["--scheduler_conf=/a"]}, set()),
        ("vc-agent-scheduler", {"image": "a/b", "args": ["--scheduler-conf=/a", "--scheduler-worker-count=1"]}, set()),
        ("vc-controller-manager", {"image": "a/b", "args": ["--worker-threads-for-gc=5"]}, set()),
        ("vc-webhook-manager", {"image": "a/b@sha256:0", "args": ["--enabled-admission=/jobs/mutate"]}, set()),
        ("vc-webhook-manager", {"image": "a/b"}, {"volcano-admission"}),
        ("vc-agent", {"image": "a/b", "command": ["sh", "-c", "/vc-agent --v=2"]}, set()),
        ("", {"image": "kube-scheduler:v1.36", "args": ["--leader-elect=true"]}, {"kube-scheduler"}),
    ],
)
def test_a_program_is_known_by_its_image_its_command_its_flags_or_its_label(
    name: str, container: dict[str, Any], labels: set[str | None]
) -> None:
    words = tuple(word for text in (*container.get("command", ()), *container.get("args", ())) for word in text.split())
    assert _name_of(container, words, labels) == name


def test_a_stateful_set_is_a_program_too() -> None:
    container = {"image": "a/b", "args": ["--scheduler-conf=/a"]}
    template = {"metadata": {}, "spec": {"containers": [container]}}
    workload = {"metadata": {"namespace": "a", "name": "b"}, "spec": {"replicas": 3, "template": template}}
    found = _program(STATEFUL_SETS, workload)
    assert found is not None
    assert (found.name, found.replicas, found.kind.kind, found.name in COUNTERPARTS) == ("vc-scheduler", 3, "StatefulSet", True)


THEIRS, OURS = Key("volcano-system", "volcano-admission-service"), Key("pyroclast-system", "pyroclast-admission-service")


@pytest.mark.parametrize(
    ("target", "label", "name", "is_theirs"),
    [
        (THEIRS, "", "validatejob.volcano.sh", True),
        (THEIRS, "pyroclast", "validatejob.volcano.sh", True),
        (Key("a", "gone"), "", "validatejob.volcano.sh", True),
        (OURS, "", "validatejob.volcano.sh", False),
        (OURS, "pyroclast", "validatejob.volcano.sh", False),
        ("https://127.0.0.1:1", "pyroclast", "validatejob.volcano.sh", False),
        ("https://127.0.0.1:1", "", "validatejob.volcano.sh", True),
        (Key("kyverno", "svc"), "", "validate.kyverno.svc", False),
    ],
)
def test_webhooks_are_judged_by_where_they_point(target: Any, label: str, name: str, is_theirs: bool) -> None:
    client = {"url": target} if isinstance(target, str) else {"service": {"namespace": target.namespace, "name": target.name}}
    metadata = {"name": "a", "labels": {"app.kubernetes.io/name": label}}
    configuration = {"metadata": metadata, "webhooks": [{"name": name, "clientConfig": client}]}
    assert _is_of_volcano(configuration, {THEIRS}, {OURS}) is is_theirs
