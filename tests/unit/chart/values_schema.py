"""Draws `values.schema.json` from `values.yaml`: types from the defaults, descriptions from the comments, limits from a table.

`python -m tests.unit.chart.values_schema` writes the file anew.
"""

import json
import re

import yaml

from tests.unit.chart import render

VALUES = render.CHART / "values.yaml"
SCHEMA = render.CHART / "values.schema.json"

# What the default of a value does not tell, by a pattern of its path; the first that fits counts.
LIMITS = [
    (r"webhook\.failurePolicy", {"enum": ["Fail", "Ignore"]}),
    (r"webhook\.certificates", {"enum": ["self-signed", "secret"]}),
    (r"webhook\.timeoutSeconds", {"type": "integer", "minimum": 1, "maximum": 30}),
    (r"webhook\.url", {"type": "string", "pattern": "^(https://.+)?$"}),
    (r"custom\.log_level", {"enum": ["debug", "info", "warning", "error"]}),
    (r"custom\.enabled_admissions", {"type": "string", "pattern": "^( *(/[a-z]+/(mutate|validate)) *(,|$))*$"}),
    (r"custom\.scheduler_schedule_period", {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"}),
    (r"custom\..*_replicas", {"type": "integer", "minimum": 0}),
    (r"custom\..*_worker_threads.*", {"type": "integer", "minimum": 1}),
    (r"custom\..*_(qps|burst)", {"type": "number", "minimum": 0}),
    (r"basic\.image_pull_policy", {"enum": ["Always", "IfNotPresent", "Never"]}),
    (r"basic\.admission_port", {"type": "integer", "minimum": 1, "maximum": 65535}),
    (r"basic\..*image_tag_version", {"type": ["string", "number"]}),
    (r"service\.ipFamilyPolicy", {"enum": ["", "SingleStack", "PreferDualStack", "RequireDualStack"]}),
    (r"service\.ipFamilies", {"type": "array", "items": {"enum": ["IPv4", "IPv6"]}}),
]
TYPES = {bool: "boolean", str: ["string", "null"], dict: ["object", "null"], list: ["array", "null"]}


def draw() -> str:
    """The content of the schema file."""
    text = VALUES.read_text()
    told = descriptions(text)
    sections = {section: _section(section, values, told) for section, values in yaml.safe_load(text).items()}
    sections["global"] = {"type": "object", "description": "Set by helm where another chart includes this one."}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **_closed(sections)}
    return json.dumps(schema, indent=2) + "\n"


def _section(section: str, values: dict[str, object], told: dict[str, str]) -> dict[str, object]:
    paths = {name: f"{section}.{name}" for name in values}
    known = {name: {"description": told[path], **limits(path, values[name])} for name, path in paths.items()}
    return {"description": told[section], **_closed(known)}


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def limits(path: str, default: object) -> dict[str, object]:
    """What values there may be at `path`."""
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
