"""What becomes of each part of an installed Volcano."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pyroclast.api.types import DAEMON_SETS, STATEFUL_SETS, Key
from pyroclast_standalone.takeover.answers import ConfigurationAnswer, check_configuration
from pyroclast_standalone.takeover.inventory import Inventory, Program, WebhookConfiguration
from pyroclast_standalone.takeover.review import Effect, Finding, review

SCHEDULER = Key("volcano-system", "volcano-scheduler")
CONFIGURATION = (Key("volcano-system", "volcano-scheduler-configmap"), "volcano-scheduler.conf")
NAME = "volcano-system/volcano-scheduler-configmap volcano-scheduler.conf"
USABLE = "its text: custom.scheduler_config_override of the chart"
ENTRY = "volcano-controller.conf: networkTopologyDiscovery[0]"
TEXT = ("volcano-scheduler.conf", "text")


@dataclass(frozen=True)
class Case:
    inventory: Inventory
    want: list[Finding]
    answers: dict[tuple[str, str], ConfigurationAnswer] = field(default_factory=dict)


def _program(name: str, *arguments: str) -> Inventory:
    return Inventory(programs=(Program(SCHEDULER, name, f"volcanosh/{name}:v1.12", 2, arguments),))


MAIN = _program("vc-scheduler").programs[0]
SECOND = Key("volcano-system", "a-second")


REPLACED = Finding(
    "Deployment",
    "volcano-system/volcano-scheduler",
    Effect.REPLACED,
    "volcanosh/vc-scheduler:v1.12, 2 replicas: pyroclast_scheduler does its work",
    ("custom.scheduler_replicas", 2),
)
CASES = {
    "nothing is installed": Case(Inventory(), []),
    "flags that the chart gives, or that nobody needs": Case(
        _program("vc-scheduler", "--schedule-period=1s", "--logtostderr", "-v=3"), [REPLACED]
    ),
    "flags to give to the chart, and paths of its own": Case(
        _program("vc-scheduler", "--leader-elect=false", "--schedule-period=2s", "--scheduler-conf=/volcano/a.conf"),
        [
            REPLACED,
            Finding(
                *("flag", "volcano-system/volcano-scheduler --leader-elect", Effect.REPLACED),
                "--leader-elect=false: our chart gives pyroclast_scheduler its own",
            ),
            Finding(
                *("flag", "volcano-system/volcano-scheduler --schedule-period", Effect.KEPT),
                "--schedule-period=2s: custom.scheduler_schedule_period of the chart",
                ("custom.scheduler_schedule_period", "2s"),
            ),
            Finding(
                *("flag", "volcano-system/volcano-scheduler --scheduler-conf", Effect.REPLACED),
                "--scheduler-conf=/volcano/a.conf: our chart gives pyroclast_scheduler its own",
            ),
        ],
    ),
    "a flag that we do not know": Case(
        _program("vc-scheduler", "--odd=1"),
        [
            REPLACED,
            Finding(
                "flag", "volcano-system/volcano-scheduler --odd", Effect.IGNORED, "pyroclast_scheduler does not know this flag"
            ),
        ],
    ),
    "a flag that ours accepts without effect": Case(
        _program("vc-scheduler", "--plugins-dir=/a"),
        [
            REPLACED,
            Finding(
                *("flag", "volcano-system/volcano-scheduler --plugins-dir", Effect.IGNORED),
                "--plugins-dir=/a: pyroclast_scheduler accepts this flag, with no effect: plugins are found by entry point",
            ),
        ],
    ),
    "a number that is none": Case(
        _program("vc-scheduler", "--kube-api-burst=many"),
        [
            REPLACED,
            Finding(
                *("flag", "volcano-system/volcano-scheduler --kube-api-burst", Effect.LOST),
                "--kube-api-burst=many: 'many' cannot be read as the value custom.scheduler_kube_api_burst",
            ),
        ],
    ),
    "a second scheduler, and an agent on the nodes": Case(
        Inventory(
            programs=(
                Program(SECOND, "vc-scheduler", "a/vc-scheduler", 1, ("--scheduler-name=second",), STATEFUL_SETS),
                Program(Key("volcano-system", "agent"), "vc-agent", "a/vc-agent", 1, (), DAEMON_SETS),
                MAIN,
            )
        ),
        [
            Finding(
                *("StatefulSet", "volcano-system/a-second", Effect.REPLACED),
                "a further scheduler with the name second: our scheduler serves this name too,"
                " by custom.further_scheduler_names of the chart",
                ("custom.further_scheduler_names", ["second"]),
            ),
            Finding(
                *("DaemonSet", "volcano-system/agent", Effect.KEPT),
                "goes on as it is until you uninstall Volcano's chart; Pyroclast has no agent on nodes",
            ),
            REPLACED,
        ],
    ),
    "a second scheduler that shards nodes": Case(
        Inventory(
            programs=(
                Program(
                    *(SECOND, "vc-scheduler", "a/vc-scheduler", 1),
                    ("--scheduler-name=second", "--scheduler-sharding-mode=hard"),
                    STATEFUL_SETS,
                ),
                MAIN,
            )
        ),
        [
            Finding(
                *("StatefulSet", "volcano-system/a-second", Effect.LOST),
                "a further scheduler with the name second and flags of its own (--scheduler-sharding-mode), which one scheduler"
                " cannot have; see docs/reference/several-schedulers.md",
            ),
            REPLACED,
        ],
    ),
    "parts without a program that runs them": Case(
        Inventory(
            webhooks=(WebhookConfiguration("MutatingWebhookConfiguration", "a", ("ns/svc",)),),
            policies=(("ValidatingAdmissionPolicy", "job-validation-policy"),),
        ),
        [
            Finding(
                *("program", "not found", Effect.LOST),
                "MutatingWebhookConfiguration a is here, but no workload was recognised as vc-webhook-manager: if it runs, the"
                " takeover would not stop it. Give its Deployment the label app=volcano-admission, or delete the leftover of a"
                " Volcano that is uninstalled",
            ),
            Finding(
                *("MutatingWebhookConfiguration", "a", Effect.REPLACED),
                "calls ns/svc; the takeover saves and deletes it, our chart has webhooks of its own",
            ),
            Finding(
                *("ValidatingAdmissionPolicy", "job-validation-policy", Effect.KEPT),
                "stays in force beside our webhooks until you uninstall Volcano's chart",
            ),
        ],
    ),
    "a program without a counterpart": Case(
        _program("vc-agent-scheduler"),
        [
            Finding(
                "Deployment",
                "volcano-system/volcano-scheduler",
                Effect.LOST,
                "vc-agent-scheduler has no counterpart; pods that name its scheduler would wait for ever",
            )
        ],
    ),
    "definitions of both and of the original alone": Case(
        Inventory(crds={"jobs.batch.volcano.sh": ("v1alpha1",), "odd.volcano.sh": ()}),
        [
            Finding(
                "CRD",
                "jobs.batch.volcano.sh",
                Effect.KEPT,
                "stored as v1alpha1; we install a newer definition with the same versions",
            ),
            Finding(
                "CRD",
                "odd.volcano.sh",
                Effect.IGNORED,
                "nothing stored yet; the definition and its objects stay, and no program of ours reads them",
            ),
        ],
    ),
    "webhooks, Leases, Services and objects": Case(
        Inventory(
            programs=(Program(SCHEDULER, "vc-webhook-manager", "a", 1, ()),),
            webhooks=(WebhookConfiguration("MutatingWebhookConfiguration", "a", ("ns/svc",)),),
            leases={Key("volcano-system", "volcano"): "host_1"},
            counts={"Job": {"Running": 2, "Completed": 1}},
            services=(Key("volcano-system", "volcano-scheduler-service"),),
        ),
        [
            Finding(
                *("Deployment", "volcano-system/volcano-scheduler", Effect.REPLACED),
                "a, 1 replicas: pyroclast_admission does its work",
            ),
            Finding(
                "MutatingWebhookConfiguration",
                "a",
                Effect.REPLACED,
                "calls ns/svc; the takeover saves and deletes it, our chart has webhooks of its own",
            ),
            Finding(
                *("Service", "volcano-system/volcano-scheduler-service", Effect.KEPT),
                "leads to nobody while Volcano is stopped; ours has other Services",
            ),
            Finding(
                "Lease", "volcano-system/volcano", Effect.KEPT, "held by host_1; while it is renewed, our program does nothing"
            ),
            Finding("Job", "Running", Effect.KEPT, "2 objects"),
            Finding("Job", "Completed", Effect.KEPT, "1 object"),
        ],
    ),
    "Commands that Volcano left": Case(
        Inventory(commands=2),
        [
            Finding(
                *("Command", "unchecked", Effect.IGNORED),
                "2 Commands without a check of admission: they wait, as nobody knows whether their users may do this; "
                "create them again",
            )
        ],
    ),
    "queues whose capability Volcano reads in another way": Case(
        Inventory(capabilities={"q": {"cpu": "0", "memory": "1Gi", "nvidia.com/gpu": 0, "pods": 3, "odd": "?"}, "r": {}}),
        [
            Finding(
                *("Queue", "q", Effect.REPLACED),
                "spec.capability.cpu is 0: this is no cpu for us, and no limit for Volcano; remove it for no limit",
            ),
            Finding(
                *("Queue", "q", Effect.REPLACED),
                "spec.capability.pods is 3: we count pods, and Volcano does not; remove it for no limit",
            ),
        ],
    ),
    "a configuration with a plugin that we lack": Case(
        Inventory(programs=(MAIN,), configurations={CONFIGURATION: "text"}),
        [
            REPLACED,
            Finding("ConfigMap", NAME, Effect.KEPT, USABLE, ("custom.scheduler_config_override", "text")),
            Finding("setting", NAME, Effect.LOST, "line 3: Failed to get plugin magic."),
            Finding("setting", NAME, Effect.IGNORED, "line 4: gang: unknown flag odd"),
        ],
        {TEXT: ConfigurationAnswer("", ("line 3: Failed to get plugin magic.", "line 4: gang: unknown flag odd"))},
    ),
    "a configuration that cannot be used": Case(
        Inventory(programs=(MAIN,), configurations={CONFIGURATION: "text"}),
        [REPLACED, Finding("ConfigMap", NAME, Effect.LOST, "it cannot be used: line 1: not YAML")],
        {TEXT: ConfigurationAnswer("line 1: not YAML", ())},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_takeover_review_reports_the_effect_on_each_installed_part(case: Case) -> None:
    known = ("--schedule-period", "--leader-elect", "--scheduler-conf", "--kube-api-burst")
    scheduler = {"--plugins-dir": "no effect: plugins are found by entry point", **dict.fromkeys(known, "")}
    flags = {"pyroclast_scheduler": scheduler, "pyroclast_admission": {}}
    given = {"pyroclast_scheduler": ["--schedule-period=1s"], "pyroclast_admission": []}
    found = review(case.inventory, crds={"jobs.batch.volcano.sh"}, flags=flags, answers=case.answers, given=given)
    assert found == case.want


@pytest.mark.parametrize(
    ("file", "text", "error", "warnings"),
    [
        ("volcano-admission.conf", "", "", ()),
        ("volcano-admission.conf", "resourceGroups: [{resourceGroup: a, object: {key: namespace, value: [b]}}]", "", ()),
        ("volcano-admission.conf", "resourceGroups: [{odd: 1}]", "", ("resourceGroups[0].odd: unknown key, without effect",)),
        ("volcano-admission.conf", "odd: 1", "", ("odd: unknown key, without effect",)),
        ("volcano-admission.conf", "resourceGroups: 3", "resourceGroups must be a list of mappings", ()),
        ("volcano-controller.conf", "networkTopologyDiscovery: [{source: label, enabled: true}]", "", ()),
        (
            *("volcano-controller.conf", "networkTopologyDiscovery: [{source: odd, enabled: true}]"),
            f"{ENTRY}.source: unsupported discoverer type: odd; it must be label or ufm",
            (),
        ),
        (
            *("volcano-controller.conf", "networkTopologyDiscovery: [{source: label, odd: 1}]", ""),
            ("networkTopologyDiscovery[0].odd: unknown key, without effect",),
        ),
    ],
)
def test_configuration_check_reports_errors_and_unknown_keys(file: str, text: str, error: str, warnings: tuple[str, ...]) -> None:
    assert check_configuration(file, text) == ConfigurationAnswer(error, warnings)
