import json
import re
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
WIDGETS = json.loads((RECORDED / "widget_definition.json").read_text())
WIDGET_SCHEMA = WIDGETS["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
UNSETTLED = {"uid", "creationTimestamp", "resourceVersion", "time", "clusterIP", "lastPhaseTransitionTime"}


def recorded(name):
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def settled(value, field=""):
    """A value without what differs from one server, or one moment, to the next."""
    if isinstance(value, dict):
        return {key: "*" if key in UNSETTLED and child else settled(child, key) for key, child in value.items()}
    if isinstance(value, list):
        return ["*"] if field == "clusterIPs" and value and value != ["None"] else [settled(child, field) for child in value]
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", value)
    return value


def address(path):
    """(group, version) of a collection's path."""
    parts = path.split("/")
    return (parts[2], parts[3]) if parts[1] == "apis" else ("", parts[2])
