"""What `skaffold dev` would do: its file holds to its schema, names what there is, and makes helm render what pods can run.

skaffold itself is not at hand where the tests run. What it gives helm is worked out here by its rules.
"""

import copy
import re
import string
from fnmatch import fnmatch

import pytest
import yaml

from tests.unit.chart import fields, images, render

HERE = render.ROOT / "tests" / "unit" / "chart"
CONFIG = yaml.safe_load((render.ROOT / "skaffold.yaml").read_text())
SCHEMA = yaml.safe_load((HERE / f"{CONFIG['apiVersion'].replace('/', '-')}.yaml").read_text())
VALUES = yaml.safe_load((render.CHART / "values.yaml").read_text())
STAGES = images.stages((render.ROOT / "Dockerfile").read_text())
ARTIFACTS = {each["image"]: each for each in CONFIG["build"]["artifacts"]}
(RELEASE,) = CONFIG["deploy"]["helm"]["releases"]
TAG = "1e2f3a4-dirty"


def test_skaffold_file_matches_its_schema():
    assert fields.wrong(CONFIG, "Config", SCHEMA) == []
    assert CONFIG["kind"] == "Config"


@pytest.mark.parametrize(
    ("config", "want"),
    {
        "an unknown field": ({"apiVersion": "a", "kind": "b", "deploy": {"helms": {}}}, ".deploy.helms: no field of Deploy"),
        "a missing field": ({"apiVersion": "a"}, ".kind: is missing"),
        "a text for a number": (
            {"apiVersion": "a", "kind": "b", "portForward": [{"localPort": "1"}]},
            ".portForward[0].localPort: no integer",
        ),
        "a mapping for a list": ({"apiVersion": "a", "kind": "b", "profiles": {}}, ".profiles: no list"),
        "a number for a text": ({"apiVersion": "a", "kind": "b", "metadata": {"name": 1}}, ".metadata.name: no string"),
    }.values(),
)
def test_schema_check_reports_fields_that_skaffold_would_reject(config, want):
    assert fields.wrong(config, "Config", SCHEMA) == [want]


@pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=ARTIFACTS)
def test_each_artifact_is_a_target_of_the_dockerfile(artifact):
    assert (render.ROOT / artifact.get("context", ".") / artifact["docker"]["dockerfile"]).is_file()
    assert artifact["docker"]["target"] in STAGES


def test_skaffold_platforms_equal_those_of_bake():
    assert CONFIG["build"]["platforms"] == images.bake()["target"]["common"]["platforms"]


@pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=ARTIFACTS)
def test_file_sync_maps_each_python_file_to_site_packages_by_one_rule(artifact):
    """Each file of the context is taken by one rule, and its place is the one that the wheel gives it."""
    (site,) = {rule["dest"] for rule in artifact["sync"]["manual"]}
    base = images.argument_defaults((render.ROOT / "Dockerfile").read_text())["PYTHON"]
    assert site == f"/opt/pyroclast/lib/python{re.search(r'python:([0-9.]+)', base)[1]}/site-packages"
    sources = [path for path in images.context(render.ROOT) if path.endswith(".py") and not path.startswith("images/")]
    for path in sources:
        (rule,) = (rule for rule in artifact["sync"]["manual"] if matches(path, rule["src"]))
        assert path.removeprefix(rule["strip"]).split("/")[0] in images.PACKAGES, path
    assert len(sources) > 100
    for rule in artifact["sync"]["manual"]:
        assert any(matches(path, rule["src"]) for path in sources), rule


def matches(path: str, pattern: str) -> bool:
    """Whether `path` is taken: `**/` stands for any folders, or none."""
    return fnmatch(path, pattern.replace("**/", "*")) and path.startswith(pattern.partition("*")[0])


@pytest.fixture(scope="module")
def documents(helm):
    """What helm renders from what skaffold gives it: values, then templates with each image as it has been built."""
    reference = {f"pyroclast/{name}": f"registry.example.org/dev/pyroclast-{name}" for name in STAGES}
    known = {}
    for image in ARTIFACTS:
        suffix = image.translate(str.maketrans("./-:", "____"))
        known |= {f".IMAGE_REPO_{suffix}": reference[image], f".IMAGE_TAG_{suffix}": TAG}
    values = {key: str(value).lower() if isinstance(value, bool) else value for key, value in RELEASE["setValues"].items()}
    for key, template in RELEASE["setValueTemplates"].items():
        values[key] = re.sub(r"{{\s*(\S+?)\s*}}", lambda found: known[found[1]], template)
    options = [option for key in sorted(values) for option in ("--set", f"{key}={values[key]}")]
    files = [option for path in RELEASE.get("valuesFiles", ()) for option in ("--values", str(render.ROOT / path))]
    assert (RELEASE["name"], RELEASE["namespace"]) == (render.RELEASE, render.NAMESPACE)
    assert render.ROOT / RELEASE["chartPath"] == render.CHART
    return render.documents(helm, *options, *files)


def pods(documents):
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"}


def test_each_program_runs_the_image_that_was_built_for_it(documents):
    for pod in pods(documents).values():
        (container,) = pod["containers"]
        repository, _, tag = container["image"].rpartition(":")
        target = repository.removeprefix("registry.example.org/dev/pyroclast-")
        assert STAGES[target].entrypoint[-1] == container["command"][-1]
        assert tag == TAG
    assert len(pods(documents)) == len(ARTIFACTS)


def test_development_pods_reload_files_and_have_a_writable_root(documents):
    """Programs watch their files, in a root that can be written, by the user whom the image's files belong to."""
    for pod in pods(documents).values():
        (container,) = pod["containers"]
        assert container["command"][:3] == ["python", "-m", "pyroclast.runtime.reload"]
        assert not container["securityContext"]["readOnlyRootFilesystem"]
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (0, False)


def test_skaffold_objects_differ_from_the_release_only_in_images_commands_log_level_and_users(documents, helm):
    for ours, theirs in zip(documents, render.documents(helm), strict=True):
        assert released(ours) == released(theirs)


def released(document):
    """An object without what development changes in its pods."""
    if document["kind"] not in {"Deployment", "Pod"}:
        return document
    document = copy.deepcopy(document)
    pod = document["spec"]["template"]["spec"] if document["kind"] == "Deployment" else document["spec"]
    pod.pop("securityContext", None)
    for container in pod["containers"]:
        image_and_level = (container["image"], "--log-level=")
        container["args"] = [each for each in container["args"] if not each.startswith(image_and_level)]
        for field in ("image", "command", "securityContext"):
            container.pop(field, None)
    return document


def test_skaffold_sets_only_existing_chart_values():
    for path in [*RELEASE["setValueTemplates"], *RELEASE["setValues"]]:
        node = VALUES
        for part in path.split("."):
            assert part in node, path
            node = node[part]


def test_forwarded_ports_are_ports_of_services(documents):
    ports = {
        (each["metadata"]["name"], each["metadata"]["namespace"], port["port"])
        for each in documents
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    forwards = CONFIG["portForward"]
    assert {each["resourceType"] for each in forwards} == {"service"}
    assert {(each["resourceName"], each["namespace"], each["port"]) for each in forwards} <= ports
    assert len({each["localPort"] for each in forwards}) == len(forwards)


@pytest.mark.parametrize(("name", "context"), [("kind", "kind-kind"), ("kind", "kind-dev"), ("minikube", "minikube")])
def test_profile_is_activated_by_its_kube_context_and_does_not_push_images(name, context):
    """On both the images are loaded, not pushed, and so must not be fetched each time."""
    taken = [
        profile
        for profile in CONFIG["profiles"]
        if any(re.fullmatch(each["kubeContext"], context) for each in profile.get("activation", ()))
    ]
    assert [profile["name"] for profile in taken] == [name]
    assert taken[0]["build"]["local"] == {"push": False}
    assert VALUES["basic"]["image_pull_policy"] == "IfNotPresent"


def test_profile_for_buildah_builds_each_target_with_the_files_of_the_context():
    (profile,) = (each for each in CONFIG["profiles"] if each["name"] == "buildah")
    patches = {(each["op"], each["path"]): each.get("value") for each in profile["patches"]}
    for index, artifact in enumerate(CONFIG["build"]["artifacts"]):
        assert ("remove", f"/build/artifacts/{index}/docker") in patches
        custom = patches["add", f"/build/artifacts/{index}/custom"]
        assert custom["buildCommand"] == f"images/build {artifact['docker']['target']}"
        paths, ignored = custom["dependencies"]["paths"], custom["dependencies"]["ignore"]
        files = [file for file in images.context(render.ROOT) if file not in {"README.md", "LICENSE"}]
        assert [file for file in files if not any(fnmatch(file, path) or file.startswith(f"{path}/") for path in paths)] == []
        assert [file for file in files if any(fnmatch(file, path) for path in ignored)] == []


@pytest.mark.parametrize("context", ["production", "team-kind-production", "minikube-production"])
def test_no_profile_is_activated_in_a_production_context(context):
    patterns = [each["kubeContext"] for profile in CONFIG["profiles"] for each in profile.get("activation", ())]
    assert not [pattern for pattern in patterns if re.fullmatch(pattern, context)]
    assert set("".join(patterns)) <= set(string.ascii_letters + "-.*")
