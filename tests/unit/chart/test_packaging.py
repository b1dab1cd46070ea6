"""Images, skaffold and certificates: that what they name exists."""

import re

import pytest
import yaml

from tests.unit.chart import render

DOCKERFILE = (render.ROOT / "Dockerfile").read_text()
TARGETS = dict(
    re.findall(r"^FROM runtime AS (\S+)\n(?:EXPOSE .*\n)?ENTRYPOINT \[\"python\", \"-m\", \"(\w+)\"\]$", DOCKERFILE, re.MULTILINE)
)
SKAFFOLD = yaml.safe_load((render.ROOT / "skaffold.yaml").read_text())
VALUES = yaml.safe_load((render.CHART / "values.yaml").read_text())


def test_there_is_a_target_for_each_program():
    assert TARGETS == {
        "admission": "pyroclast_admission",
        "job-controller": "pyroclast_job_controller",
        "jobflow-controller": "pyroclast_jobflow_controller",
        "scheduler": "pyroclast_scheduler",
        "standalone": "pyroclast_standalone",
    }


@pytest.mark.parametrize("folder", re.findall(r"^COPY (\w+) \w+$", DOCKERFILE, re.MULTILINE))
def test_what_is_copied_is_there_and_reaches_the_builder(folder):
    assert (render.ROOT / folder).is_dir()
    assert f"!{folder}" in (render.ROOT / ".dockerignore").read_text().splitlines()


def test_the_images_of_the_chart_are_what_skaffold_builds():
    built = {artifact["image"]: artifact["docker"]["target"] for artifact in SKAFFOLD["build"]["artifacts"]}
    assert set(built.values()) == TARGETS.keys() - {"standalone"}
    names = {value for key, value in VALUES["basic"].items() if key.endswith("_image_name")}
    assert names == built.keys()


def test_skaffold_sets_values_that_the_chart_has():
    (release,) = SKAFFOLD["deploy"]["helm"]["releases"]
    for path in [*release["setValueTemplates"], *release["setValues"]]:
        node = VALUES
        for part in path.split("."):
            assert part in node, path
            node = node[part]


@pytest.mark.parametrize("way", ["cert-manager", "own-ca"])
def test_certificates_from_outside_go_through_the_secret_of_the_chart(helm, way):
    options = ("--values", str(render.ROOT / "certs" / f"values-{way}.yaml"))
    documents = [document for document in yaml.load_all(render.render(helm, *options), yaml.CSafeLoader) if document]
    (admission,) = (
        each for each in documents if each["kind"] == "Deployment" and each["metadata"]["name"] == "pyroclast-admission"
    )
    secrets = [
        volume["secret"]["secretName"] for volume in admission["spec"]["template"]["spec"]["volumes"] if "secret" in volume
    ]
    assert secrets == [VALUES["basic"]["admission_secret_name"]]


def test_the_certificate_of_cert_manager_is_good_for_the_service():
    documents = list(yaml.safe_load_all((render.ROOT / "certs" / "cert-manager.yaml").read_text()))
    certificate = next(each for each in documents if each["metadata"]["name"] == "pyroclast-admission")
    assert certificate["spec"]["secretName"] == VALUES["basic"]["admission_secret_name"]
    assert f"{render.RELEASE}-admission-service.{render.NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    values = yaml.safe_load((render.ROOT / "certs" / "values-cert-manager.yaml").read_text())
    assert values["webhook"]["annotations"]["cert-manager.io/inject-ca-from"] == f"{render.NAMESPACE}/pyroclast-admission"
