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


def test_there_is_a_target_for_each_service():
    assert TARGETS == {
        "admission": "pyroclast_admission",
        "job-controller": "pyroclast_job_controller",
        "jobflow-controller": "pyroclast_jobflow_controller",
        "scheduler": "pyroclast_scheduler",
    }


@pytest.mark.parametrize("folder", re.findall(r"^COPY (\w+) \w+$", DOCKERFILE, re.MULTILINE))
def test_what_is_copied_is_there_and_reaches_the_builder(folder):
    assert (render.ROOT / folder).is_dir()
    assert f"!{folder}" in (render.ROOT / ".dockerignore").read_text().splitlines()


def test_locks_that_are_copied_are_there_and_reach_the_builder():
    copied = [name for names in re.findall(r"^COPY (.*) \./$", DOCKERFILE, re.MULTILINE) for name in names.split()]
    assert "requirements.lock" in copied
    for name in copied:
        assert (render.ROOT / name).is_file()
        assert f"!{name}" in (render.ROOT / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_whatever_is_installed_into_an_image_is_known_by_its_hash(lock):
    assert f"install --require-hashes --requirement {lock}" in DOCKERFILE
    pinned = re.split(r"\n(?=\S)", (render.ROOT / lock).read_text().strip())
    assert all("==" in each and "--hash=sha256:" in each for each in pinned)
    installs = re.findall(r"pip [^&\n]*\binstall\b[^&\n]*", DOCKERFILE)
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_what_builds_the_wheel_is_what_the_checkout_is_built_with():
    build = (render.ROOT / "requirements-build.lock").read_text()
    development = (render.ROOT / "requirements-dev.lock").read_text()
    for name, version in re.findall(r"^([\w-]+)==([^ ;]+)", build, re.MULTILINE):
        assert f"{name}=={version}" in development


def test_images_run_as_nobody_and_without_pip():
    final = DOCKERFILE.partition("AS runtime")[2]
    assert "USER 65532:65532" in final
    assert "pip uninstall" in final
    assert final.index("USER") < final.index("ENTRYPOINT")


def test_pods_run_what_the_images_do(helm):
    commands = re.findall(r"command: \[python, -m, (\w+)\]", render.render(helm))
    assert sorted(commands) == sorted(TARGETS.values())


@pytest.mark.parametrize("artifact", SKAFFOLD["build"]["artifacts"], ids=lambda artifact: artifact["image"])
def test_skaffold_builds_and_syncs_what_there_is(artifact):
    assert set(artifact) <= {"image", "docker", "sync", "context", "platforms", "requires", "hooks"}
    assert artifact["docker"]["dockerfile"] == "Dockerfile"
    python = re.search(r"python:(\d+\.\d+)", DOCKERFILE)[1]
    for rule in artifact["sync"]["manual"]:
        assert set(rule) <= {"src", "dest", "strip"}
        assert list(render.ROOT.glob(rule["src"]))
        assert rule["dest"] == f"/opt/pyroclast/lib/python{python}/site-packages"
        assert rule["src"].startswith(rule["strip"])


def test_skaffold_has_the_fields_of_its_version():
    assert SKAFFOLD["apiVersion"] == "skaffold/v4beta13"
    assert set(SKAFFOLD) <= {
        "apiVersion", "kind", "metadata", "requires", "build", "test", "render", "manifests", "deploy", "portForward",
        "resourceSelector", "verify", "customActions", "profiles",
    }  # fmt: skip
    (release,) = SKAFFOLD["deploy"]["helm"]["releases"]
    assert set(release) <= {
        "name", "chartPath", "remoteChart", "valuesFiles", "namespace", "version", "setValues", "setValueTemplates", "setFiles",
        "createNamespace", "wait", "recreatePods", "skipBuildDependencies", "skipTests", "useHelmSecrets", "repo",
        "upgradeOnChange", "overrides", "packaged", "dependsOn",
    }  # fmt: skip
    assert (render.ROOT / release["chartPath"] / "Chart.yaml").is_file()
    assert [profile["name"] for profile in SKAFFOLD["profiles"]] == ["kind", "minikube"]


def test_skaffold_deploys_what_helm_renders(helm):
    """Its values, with images as it names them, are good for the chart; each port that it forwards is a port of a Service."""
    (release,) = SKAFFOLD["deploy"]["helm"]["releases"]
    values = dict.fromkeys(release["setValueTemplates"], "x") | {
        path: str(value).lower() for path, value in release["setValues"].items()
    }
    options = [option for path, value in values.items() for option in ("--set", f"{path}={value}")]
    documents = render.documents(helm, *options)
    ports = {
        (each["metadata"]["name"], each["metadata"]["namespace"], port["port"])
        for each in documents
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    forwarded = {(each["resourceName"], each["namespace"], each["port"]) for each in SKAFFOLD["portForward"]}
    assert forwarded <= ports


def test_the_images_of_the_chart_are_what_skaffold_builds():
    built = {artifact["image"]: artifact["docker"]["target"] for artifact in SKAFFOLD["build"]["artifacts"]}
    assert set(built.values()) == TARGETS.keys()
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
    documents = render.documents(helm, *options)
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
