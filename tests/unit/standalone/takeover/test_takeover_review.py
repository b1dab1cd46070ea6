"""What becomes of each part of an installed Volcano."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pyroclast.api.types import Key
from pyroclast_standalone.takeover.inventory import Inventory, Program, WebhookConfiguration
from pyroclast_standalone.takeover.programs import ConfigurationAnswer
from pyroclast_standalone.takeover.review import Effect, Finding, review

SCHEDULER = Key("volcano-system", "volcano-scheduler")
CONFIGURATION = (Key("volcano-system", "volcano-scheduler-configmap"), "volcano-scheduler.conf")
NAME = "volcano-system/volcano-scheduler-configmap volcano-scheduler.conf"
USABLE = "the scheduler can use it as custom.scheduler_config_override"


@dataclass(frozen=True)
class Case:
    inventory: Inventory
    want: list[Finding]
    answers: dict[str, ConfigurationAnswer] = field(default_factory=dict)


def _program(name: str, *arguments: str) -> Inventory:
    return Inventory(programs=(Program(SCHEDULER, name, f"volcanosh/{name}:v1.12", 2, arguments),))


REPLACED = Finding(
    "Deployment",
    "volcano-system/volcano-scheduler",
    Effect.REPLACED,
    "volcanosh/vc-scheduler:v1.12, 2 replicas: pyroclast_scheduler does its work",
)
CASES = {
    "nothing is installed": Case(Inventory(), []),
    "a program with known flags": Case(_program("vc-scheduler", "--schedule-period=2s", "--logtostderr", "-v=3"), [REPLACED]),
    "a flag that we do not know": Case(
        _program("vc-scheduler", "--odd=1"),
        [
            REPLACED,
            Finding(
                "flag", "volcano-system/volcano-scheduler --odd", Effect.IGNORED, "pyroclast_scheduler does not know this flag"
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
    "webhooks, Leases and objects": Case(
        Inventory(
            webhooks=(WebhookConfiguration("MutatingWebhookConfiguration", "a", ("ns/svc",)),),
            leases={Key("volcano-system", "volcano"): "host_1"},
            counts={"Job": {"Running": 2, "Completed": 1}},
        ),
        [
            Finding(
                "MutatingWebhookConfiguration",
                "a",
                Effect.REPLACED,
                "calls ns/svc now; delete it when our webhooks are installed",
            ),
            Finding("Lease", "volcano-system/volcano", Effect.KEPT, "held by host_1; stop this program before you install ours"),
            Finding("Job", "Running", Effect.KEPT, "2 objects"),
            Finding("Job", "Completed", Effect.KEPT, "1 object"),
        ],
    ),
    "a configuration with a plugin that we lack": Case(
        Inventory(configurations={CONFIGURATION: "text"}),
        [
            Finding("ConfigMap", NAME, Effect.KEPT, USABLE),
            Finding("setting", NAME, Effect.LOST, "line 3: Failed to get plugin magic."),
            Finding("setting", NAME, Effect.IGNORED, "line 4: gang: unknown flag odd"),
        ],
        {"text": ConfigurationAnswer("", ("line 3: Failed to get plugin magic.", "line 4: gang: unknown flag odd"))},
    ),
    "a configuration that cannot be used": Case(
        Inventory(configurations={CONFIGURATION: "text"}),
        [Finding("ConfigMap", NAME, Effect.LOST, "the scheduler cannot use it: line 1: not YAML")],
        {"text": ConfigurationAnswer("line 1: not YAML", ())},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_review(case: Case) -> None:
    flags = {"pyroclast_scheduler": {"--schedule-period"}}
    assert review(case.inventory, crds={"jobs.batch.volcano.sh"}, flags=flags, answers=case.answers) == case.want
