"""Draws `values.schema.json` from `values.yaml`: types from the defaults, descriptions from the comments, limits from a table.

Which further flags a program takes is read from its settings; what is taken but does nothing is in `files/ignored-values.yaml`.

`python -m tests.unit.chart.values_schema` writes the file anew.
"""

import json
import re
from typing import Any

import yaml

from pyroclast.runtime.settings import ServiceSettings
from pyroclast_admission.settings import AdmissionSettings
from pyroclast_board.settings import BoardSettings
from pyroclast_job_controller.settings import ControllerSettings
from pyroclast_jobflow_controller.settings import JobFlowSettings
from pyroclast_recorder.settings import RecorderSettings
from pyroclast_scheduler.settings import SchedulerSettings
from tests.unit.chart import render

VALUES = render.CHART / "values.yaml"
SCHEMA = render.CHART / "values.schema.json"
IGNORED = render.CHART / "files" / "ignored-values.yaml"

SETTINGS: dict[str, type[ServiceSettings]] = {
    "admission": AdmissionSettings,
    "board": BoardSettings,
    "controller": ControllerSettings,
    "jobflow": JobFlowSettings,
    "recorder": RecorderSettings,
    "scheduler": SchedulerSettings,
}
# Flags behind which another value stands, or on which the rest of the chart relies: as further flags they would fight it.
_OWN = (
    "enable-healthz healthz-address enable-metrics listen-address log-format log-level otel-endpoint kube-api-qps kube-api-burst"
)
_ELECTION = """leader-elect leader-elect-resource-name leader-elect-resource-namespace leader-elect-shards leader-elect-wait-for
    leader-elect-wait-for-app lock-object-namespace"""
RESERVED = {
    "admission": """port webhook-namespace webhook-service-name webhook-url webhook-secret-name enabled-admission admission-conf
        tls-cert-file tls-private-key-file ca-cert-file certificate-validity ca-validity certificate-overlap metrics-address
        max-queue-depth enable-root-queue-protection enable-queue-allocated-pods-check enable-flow-protection job-plugins
        scheduler-name feature-gates shutdown-delay-duration max-pods-per-job allow-job-placement queue-access client-ca-file
        client-name""",
    "board": """page-address login session-key-file recorder-url recorder-token-file lease-namespace page-cert-file page-key-file
        requestheader-client-ca-file requestheader-allowed-names scheduler-url scheduler-token-file trace-url
        runbooks""",
    "controller": f"""{_ELECTION} controllers worker-threads worker-threads-for-gc worker-threads-for-podgroup scheduler-name
        sharding-configmap sharding-configmap-namespace controller-configmap place-before-pods in-process-webhooks
        one-pod-without-group publish-native-groups max-pods-per-job allow-job-placement""",
    "jobflow": f"{_ELECTION} controllers scheduler-name in-process-webhooks max-pods-per-job allow-job-placement",
    "recorder": f"""{_ELECTION} api-address schedulers database-url keep-pods keep-jobs keep-usage native-workloads
        notifications-file""",
    "scheduler": f"""{_ELECTION} scheduler-conf schedule-period scheduler-name feature-gates ignored-provisioners
        scheduler-sharding-mode scheduler-sharding-name place-before-pods native-workloads
        skip-unknown-plugins""",
}
# The admission service has no values for its limits to the API server.
_ADMISSION_TOO = {"kube-api-qps", "kube-api-burst"}

# Values become names, labels and parts of expressions, so nothing may break out of these.
_NAME = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_LABEL = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_OURS = ["app", *(f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "managed-by"))]
_LABELS = {
    "type": ["object", "null"],
    "propertyNames": {"pattern": f"^({_NAME}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$", "not": {"enum": _OURS}},
    "additionalProperties": {"type": "string", "pattern": f"^{_LABEL}$"},
}
_OPTIONAL_NAME = {"type": ["string", "null"], "pattern": f"^({_NAME})?$"}
_NAMES = {"type": ["string", "null"], "pattern": "^[-A-Za-z0-9_., +*:/]*$"}

# What the default of a value does not tell, by a pattern of its path; the first that fits counts.
LIMITS = [
    (r"basic\.admission_secret_name|test\.namespace", {"type": "string", "pattern": f"^{_NAME}$"}),
    (r"basic\.\w+_image_digest", {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}),
    (r"basic\.(\w+_image_name|image_registry)", {"type": ["string", "null"], "pattern": "^[-A-Za-z0-9_./:]*$"}),
    (r"basic\.image_pull_secret|webhook\.clientCaSecret", _OPTIONAL_NAME),
    (r"custom\.\w+_(secret|lease_name|class_name|class|sharding_name|device_config)", _OPTIONAL_NAME),
    (r"custom\.(scheduler_name|wait_for_volcano_in|recorder_storage_class|board_ingress_host)", _OPTIONAL_NAME),
    (r"custom\.further_scheduler_names", {"type": "array", "items": {"type": "string", "pattern": f"^{_NAME}$"}}),
    (r"custom\.(job_plugins|controller_enabled_controllers|ignored_provisioners)", _NAMES),
    (r"custom\.(\w+_labels|\w+_podLabels)|monitoring\.\w*[lL]abels", _LABELS),
    (r"custom\.bind_address", {"type": ["string", "null"], "pattern": r"^[][$()0-9A-Za-z_.:%-]*$"}),
    (r"webhook\.failurePolicy", {"enum": ["Fail", "Ignore"]}),
    (r"webhook\.queueAccess", {"enum": ["open", "checked"]}),
    (r"webhook\.certificates", {"enum": ["self-signed", "secret"]}),
    (r"webhook\.timeoutSeconds", {"type": "integer", "minimum": 1, "maximum": 30}),
    (
        r"webhook\.(certificate|ca)(Validity|Overlap)",
        {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"},
    ),
    (r"webhook\.url", {"type": "string", "pattern": "^(https://.+)?$"}),
    (r"custom\.log_level", {"enum": ["debug", "info", "warning", "error"]}),
    (r"custom\..*_log_level", {"enum": ["", "debug", "info", "warning", "error", *range(11)]}),
    (r"custom\.hypernode_controller_mode", {"enum": ["controller-manager", "standalone", "disabled"]}),
    (r"custom\.scheduler_sharding_mode", {"enum": ["", "none", "hard", "soft", None]}),
    (r"custom\.place_before_pods", {"enum": [True, False, "auto"]}),
    (r"custom\.board_login", {"enum": ["token", "proxy"]}),
    (r"custom\.topology_spread", {"enum": ["", "ScheduleAnyway", "DoNotSchedule"]}),
    (r"custom\.recorder_keep_.*", {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"}),
    (r"monitoring\.runbooks", {"type": "string", "pattern": "^(https?://[!-~]+)?$"}),
    (r"custom\.recorder_storage_size", {"type": ["string", "null"], "pattern": "^([0-9]+[KMGTP]i?)?$"}),
    (r"custom\.(max_queue_depth|max_pods_per_job)", {"type": "integer", "minimum": 1}),
    (r"custom\..*_(shards|members)", {"type": "integer", "minimum": 1, "maximum": 64}),
    (
        r"custom\..*_env",
        {
            "type": ["array", "null"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
    ),
    (
        r"custom\.priority_classes",
        {
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": ["name", "value"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": "integer", "maximum": 10**9},
                    "description": {"type": "string"},
                    "globalDefault": {"type": "boolean"},
                    "preemptionPolicy": {"enum": ["PreemptLowerPriority", "Never"]},
                },
            },
        },
    ),
    (r"custom\.enabled_admissions", {"type": "string", "pattern": "^( *(/[a-z]+/(mutate|restore|validate)) *(,|$))*$"}),
    (r"custom\.scheduler_schedule_period", {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"}),
    (r"custom\..*_replicas", {"type": "integer", "minimum": 0}),
    (r"custom\..*_worker_threads.*", {"type": "integer", "minimum": 1}),
    (r"custom\.scheduler_estimate_least_held", {"type": "number", "minimum": 0, "maximum": 1}),
    (r"custom\..*_(qps|burst)", {"type": "number", "minimum": 0}),
    (r"basic\.image_pull_policy", {"enum": ["Always", "IfNotPresent", "Never"]}),
    (r"basic\.admission_port", {"type": "integer", "minimum": 1, "maximum": 65535}),
    (r"basic\..*image_tag_version", {"type": ["string", "number"]}),
    (r"monitoring\.interval", {"type": "string", "pattern": "^[0-9]+(s|m)$"}),
    (r"test\.timeoutSeconds", {"type": "integer", "minimum": 1}),
    (r"service\.ipFamilyPolicy", {"enum": ["", "SingleStack", "PreferDualStack", "RequireDualStack"]}),
    (r"service\.ipFamilies", {"type": "array", "items": {"enum": ["IPv4", "IPv6"]}}),
]
TYPES = {bool: "boolean", str: ["string", "null"], dict: ["object", "null"], list: ["array", "null"]}


def draw() -> str:
    """The content of the schema file."""
    text = VALUES.read_text()
    told = descriptions(text)
    sections = {section: _section(section, values, told) for section, values in yaml.safe_load(text).items()}
    for path, ignored in yaml.safe_load(IGNORED.read_text()).items():
        section, _, name = path.partition(".")
        sections[section]["properties"][name] = {"description": f"Has no effect: {ignored['why']}."}
    sections["global"] = {"type": "object", "description": "Set by helm where another chart includes this one."}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **_closed(sections)}
    return json.dumps(schema, indent=2) + "\n"


def extra_flags(key: str) -> list[str]:
    """The flags of a program that no other value sets."""
    reserved = {*RESERVED[key].split(), *_OWN.split()} - (_ADMISSION_TOO if key == "admission" else set())
    return sorted({name.replace("_", "-") for name in SETTINGS[key].model_fields} - reserved)


def _section(section: str, values: dict[str, object], told: dict[str, str]) -> dict[str, Any]:
    paths = {name: f"{section}.{name}" for name in values}
    known = {name: {"description": told[path], **limits(path, values[name])} for name, path in paths.items()}
    return {"description": told[section], **_closed(known)}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def limits(path: str, default: object) -> dict[str, object]:
    """What values there may be at `path`."""
    if matched := re.fullmatch(r"custom\.(\w+)_extra_args", path):
        flags = "|".join(extra_flags(matched[1]))
        return {"type": ["array", "null"], "items": {"type": "string", "pattern": f"^--({flags})(=.*)?$"}}
    for pattern, found in LIMITS:
        if re.fullmatch(pattern, path):
            return found
    return {"type": TYPES[type(default)]}


def descriptions(text: str) -> dict[str, str]:
    """The comment above each value; one comment holds for all values below it up to an empty line or the next comment."""
    told: dict[str, str] = {}
    section, comment, in_comment = "", "", False
    for line in text.splitlines():
        if not line.strip():
            comment = ""
        elif matched := re.fullmatch(r"(?:  )?# (.*)", line):
            comment = f"{comment} {matched[1]}" if in_comment else matched[1]
        elif matched := re.match(r"(\w+):", line):
            section = matched[1]
            told[section], comment = comment, ""
        elif matched := re.match(r"  (\w+):", line):
            told[f"{section}.{matched[1]}"] = comment or matched[1].replace("_", " ")
        in_comment = line.lstrip().startswith("#")
    return told


if __name__ == "__main__":
    SCHEMA.write_text(draw())
