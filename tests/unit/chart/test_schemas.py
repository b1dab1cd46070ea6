"""Everything that the chart renders is what three versions of Kubernetes understand, field by field."""

import functools
import json
import subprocess

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

from tests.unit.chart import render
from tests.unit.chart.value_sets import SETS

VERSIONS = ["1.32", "1.34", "1.36"]
OF_OTHERS = "monitoring.coreos.com/"
seen: set[tuple[str, str]] = set()
"""What has been found good already: most objects are the same for most values."""


@pytest.fixture(autouse=True)
def read_once(monkeypatch):
    monkeypatch.setattr(utils, "schema_contents", cached)


cached = functools.cache(utils.schema_contents)


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_rendered_objects_are_unique_and_valid_in_all_kubernetes_versions(helm, tmp_path, values):
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


# which together have every template
@pytest.mark.parametrize("name", ["defaults", "everything", "namespaces choose a scheduler", "bound pods"])
def test_helm_lint_passes_in_strict_mode(helm, tmp_path, name):
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(SETS[name]))
    linted = subprocess.run(
        [helm, "lint", "--strict", str(render.CHART), "--values", str(path)], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
