"""The Dockerfile by the rules of a linter, the file that builds all images of it, and that what they name exists."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.chart import images, render

PARTS = SimpleNamespace(**runpy.run_path(str(render.ROOT / "images" / "parts.py")))
TEXT = (render.ROOT / "Dockerfile").read_text()
BAKE = images.bake()
KNOWN = "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR"
LABELS = {"title", "version", "description", "licenses"}


def lint(text: str) -> list[str]:
    """What is wrong with a Dockerfile, each with its line."""
    return sorted(f"{line}: {told}" for rule in RULES for line, told in rule(text))


def unknown_words(text: str) -> Iterator[tuple[int, str]]:
    for each in images.instructions(text):
        if each.word not in KNOWN.split():
            yield each.line, f"{each.word} is no instruction"


def bases_without_a_version(text: str) -> Iterator[tuple[int, str]]:
    names, arguments = set(), images.argument_defaults(text)
    for each in images.instructions(text):
        if each.word == "FROM":
            base, _, name = each.text.partition(" AS ")
            image = images.expand(base, arguments)
            if image not in {*names, "scratch"} and not re.search(
                r":(?!latest)[\w.-]+(@sha256:[0-9a-f]{64})?$|@sha256:[0-9a-f]{64}$", image
            ):
                yield each.line, f"{image} has no version"
            if not name:
                yield each.line, "the stage has no name"
            if name in names:
                yield each.line, f"{name} is there twice"
            names.add(name)


def downloads_that_nobody_checks(text: str) -> Iterator[tuple[int, str]]:
    for each in images.instructions(text):
        if each.word == "ADD":
            yield each.line, "ADD unpacks and downloads; COPY does what it says"
        if each.word == "RUN":
            for install in re.findall(r"pip [^&;|]*\binstall\b[^&;|]*", each.text):
                if "--require-hashes" not in install and "--no-index" not in install:
                    yield each.line, "pip install without hashes"
            if re.search(r"\b(curl|wget)\b", each.text):
                yield each.line, "a download without a hash"
            if re.search(r"\bpip\b[^&;|]*\b(install|wheel)\b", each.text) and "--no-cache-dir" not in each.text:
                yield each.line, "pip leaves its cache in the layer"


def commands_that_fail_unseen(text: str) -> Iterator[tuple[int, str]]:
    for each in images.instructions(text):
        if each.word == "RUN" and re.search(r"(?<!\|)\|(?!\|)|;|\|\|", each.text):
            yield each.line, "a part of the command may fail and the build goes on"
        if each.word == "RUN" and re.search(r"\b(sudo|apt-get upgrade|chmod 777)\b", each.text):
            yield each.line, "has no place in an image"
        if each.word in {"ENTRYPOINT", "CMD"} and not each.text.startswith("["):
            yield each.line, "a shell would stand between the program and its signals"
        if each.word == "WORKDIR" and not each.text.startswith("/"):
            yield each.line, "a relative folder"


def secrets(text: str) -> Iterator[tuple[int, str]]:
    for each in images.instructions(text):
        if each.word in {"ENV", "ARG"} and re.search(r"(?i)(password|secret|token|key)\w*=", each.text):
            yield each.line, "a secret stays in the image's history"


def stages_that_run_as_root(text: str) -> Iterator[tuple[int, str]]:
    stages = images.stages(text)
    for stage in stages.values():
        if not stage.of("ENTRYPOINT"):
            continue
        line, users = stage.of("ENTRYPOINT")[-1].line, []
        while stage is not None:
            users = [each.text for each in stage.of("USER")] + users
            stage = stages.get(stage.base)
        if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
            yield line, "runs as root, or as a user by name, which runAsNonRoot cannot judge"


RULES = [
    unknown_words,
    bases_without_a_version,
    downloads_that_nobody_checks,
    commands_that_fail_unseen,
    secrets,
    stages_that_run_as_root,
]


def test_the_dockerfile_has_no_fault():
    assert lint(TEXT) == []


BASE = "FROM python:3.13 AS a\n"
FAULTS = {
    "a base without a version": ("FROM python AS a", "1: python has no version"),
    "the latest of a base": ("FROM python:latest AS a", "1: python:latest has no version"),
    "a stage without a name": ("FROM python:3", "1: the stage has no name"),
    "a word that is none": (BASE + "COPPY a b", "2: COPPY is no instruction"),
    "an install by name": (BASE + "RUN pip --no-cache-dir install aiohttp", "2: pip install without hashes"),
    "a cache that is left": (BASE + "RUN pip install --require-hashes -r a", "2: pip leaves its cache in the layer"),
    "a download": (BASE + "RUN wget https://example.org", "2: a download without a hash"),
    "a pipe": (BASE + "RUN a | b", "2: a part of the command may fail and the build goes on"),
    "a failure that is ignored": (BASE + "RUN a || true", "2: a part of the command may fail and the build goes on"),
    "a command in a shell": (BASE + "USER 1:1\nENTRYPOINT python", "3: a shell would stand between the program and its signals"),
    "a program of root": (
        BASE + 'ENTRYPOINT ["a"]',
        "2: runs as root, or as a user by name, which runAsNonRoot cannot judge",
    ),
    "a user by name, from the stage below": (
        BASE + 'USER app\nFROM a AS b\nENTRYPOINT ["a"]',
        "4: runs as root, or as a user by name, which runAsNonRoot cannot judge",
    ),
    "a secret": (BASE + "ENV API_TOKEN=1", "2: a secret stays in the image's history"),
}


@pytest.mark.parametrize(("text", "want"), FAULTS.values(), ids=FAULTS)
def test_linter_reports_each_kind_of_fault_with_its_line(text, want):
    assert want in lint(text)


def test_continued_lines_are_parsed_as_one_instruction():
    text = '# why\nFROM python:3.13 AS a\nRUN one \\\n    # inside\n    && two\nCOPY --from=a ["b c", "d"]\n'
    assert [(each.line, each.word, each.text, each.comment) for each in images.instructions(text)] == [
        (2, "FROM", "python:3.13 AS a", "why"),
        (3, "RUN", "one && two", ""),
        (6, "COPY", '--from=a ["b c", "d"]', ""),
    ]


def test_runtime_stage_has_oci_labels_with_version_and_license():
    runtime = images.stages(TEXT)["runtime"]
    text = " ".join(each.text for each in runtime.of("LABEL"))
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)=("[^"]*"|\S+)', text))
    assert labels.keys() >= LABELS
    assert labels["version"] == "${VERSION}"
    assert labels["licenses"] == "Apache-2.0"
    (version,) = [each.text.partition("=")[2] for each in runtime.of("ARG") if each.text.startswith("VERSION=")]
    assert version == BAKE["variable"]["VERSION"]["default"]


def test_chart_and_project_versions_equal_the_version_that_bake_builds():
    chart = (render.CHART / "Chart.yaml").read_text()
    project = (render.ROOT / "pyproject.toml").read_text()
    version = BAKE["variable"]["VERSION"]["default"]
    assert f'appVersion: "{version}"' in chart
    assert f'version = "{version}"' in project


DIGEST = "python:3.13-slim@sha256:" + "0" * 64


def test_base_image_argument_accepts_a_digest():
    assert BAKE["variable"]["PYTHON"]["default"] == images.argument_defaults(TEXT)["PYTHON"]
    stages = images.stages(TEXT, {"PYTHON": DIGEST})
    assert {stage.base for stage in stages.values()} <= {DIGEST, "scratch", *stages}
    text = TEXT.replace(f"ARG PYTHON={BAKE['variable']['PYTHON']['default']}", f"ARG PYTHON={DIGEST}")
    assert text != TEXT
    assert lint(text) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "PYTHON=python:3.13-slim names its base by no digest"),
        ({"PYTHON": "python:3.14"}, "give --build-arg PYTHON=python:3.13-slim@sha256:..."),
        ({"PYTHON": DIGEST}, ""),
        ({"UNPINNED": "true"}, ""),
        ({"UNPINNED": "yes"}, "or for trying out --build-arg UNPINNED=true"),
    ],
)
def test_build_fails_with_a_hint_when_the_base_has_no_digest(given, words):
    """The first command of the first stage, as a shell carries it out."""
    build = images.stages(TEXT)["build"]
    command = next(each for each in build.instructions if each.word != "ARG")
    assert command.word == "RUN"
    assert {each.text for each in build.of("ARG")} == {"PYTHON", "UNPINNED"}
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **images.argument_defaults(TEXT), **given}
    done = subprocess.run(["sh", "-c", command.text], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(words)
    assert words in done.stderr


def test_bake_requires_a_pinned_base_by_default_and_skaffold_does_not():
    assert BAKE["variable"]["UNPINNED"]["default"] == images.argument_defaults(TEXT)["UNPINNED"] == "false"
    for artifact in yaml.safe_load((render.ROOT / "skaffold.yaml").read_text())["build"]["artifacts"]:
        assert artifact["docker"]["buildArgs"] == {"UNPINNED": "true"}


@pytest.mark.parametrize("name", BAKE["group"]["default"]["targets"])
def test_all_images_are_built_for_both_architectures_with_a_bill_of_materials(name):
    target = BAKE["target"][name]
    common = {key: value for parent in target["inherits"] for key, value in BAKE["target"][parent].items()}
    assert set(target) | set(common) <= {"inherits", "target", "tags", "context", "dockerfile", "platforms", "attest", "args"}
    assert common["platforms"] == ["linux/amd64", "linux/arm64"]
    assert "type=sbom" in common["attest"]
    assert target["target"] in images.stages(TEXT)
    assert target["tags"] == [f"${{REGISTRY}}pyroclast/{name}:${{VERSION}}"]
    declared = {each.text.partition("=")[0] for each in images.instructions(TEXT) if each.word == "ARG"}
    assert common["args"].keys() <= declared
    used = {name for value in [*common["args"].values(), *target["tags"]] for name in re.findall(r"\$\{(\w+)\}", value)}
    assert used <= BAKE["variable"].keys()


def test_build_context_holds_only_the_packages_of_the_images():
    files = images.context(render.ROOT)
    assert {file.split("/")[1] for file in files if file.startswith(("libs/", "services/"))} == images.PACKAGES
    others = ("tests/", ".git", "docs/", "services/pyroclast_cli", "services/pyroclast_client", "services/pyroclast_standalone")
    assert not [file for file in files if file.startswith(others)]


TARGETS = dict(
    re.findall(
        r"^FROM runtime AS (\S+)\n(?:(?:COPY|EXPOSE) .*\n)*ENTRYPOINT \[\"python\", \"-m\", \"(\w+)\"\]$", TEXT, re.MULTILINE
    )
)
VALUES = yaml.safe_load((render.CHART / "values.yaml").read_text())


def test_there_is_a_target_for_each_service():
    assert TARGETS == {
        "admission": "pyroclast_admission",
        "board": "pyroclast_board",
        "job-controller": "pyroclast_job_controller",
        "jobflow-controller": "pyroclast_jobflow_controller",
        "recorder": "pyroclast_recorder",
        "scheduler": "pyroclast_scheduler",
    }


@pytest.mark.parametrize("folder", re.findall(r"^COPY (\w+) \w+$", TEXT, re.MULTILINE))
def test_copied_folder_exists_and_is_not_ignored_by_docker(folder):
    assert (render.ROOT / folder).is_dir()
    assert f"!{folder}" in (render.ROOT / ".dockerignore").read_text().splitlines()


def test_copied_lock_files_exist_and_are_not_ignored_by_docker():
    copied = [name for names in re.findall(r"^COPY (.*) \./$", TEXT, re.MULTILINE) for name in names.split()]
    assert "requirements.lock" in copied
    for name in copied:
        assert (render.ROOT / name).is_file()
        assert f"!{name}" in (render.ROOT / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_pip_installs_only_pinned_and_hashed_packages_into_images(lock):
    pinned = re.split(r"\n(?=\S)", (render.ROOT / lock).read_text().strip())
    assert all("==" in each and "--hash=sha256:" in each for each in pinned)
    installs = re.findall(r"pip [^&\n]*\binstall\b[^&\n]*", TEXT)
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    assert sum("--require-hashes" in each for each in installs) == 2 + sum(map(bool, PARTS.PARTS.values()))


def required(*names):
    """The distributions that these need here, with themselves."""
    found, left = set(), [Requirement(name) for name in names]
    while left:
        asked = left.pop()
        name, extras = canonicalize_name(asked.name), {"", *asked.extras}
        needs = map(Requirement, metadata.requires(name) or ())
        if (name, *sorted(extras)) not in found:
            found.add((name, *sorted(extras)))
            left += [each for each in needs if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in extras)]
    return {name for name, *_ in found}


def test_each_image_has_what_its_service_requires_and_no_more():
    special = {
        "recorder": ("aiosqlite", "alembic", "apprise", "asyncpg", "sqlalchemy[asyncio]"),
        "board": ("jinja2",),
        "scheduler": ("numpy",),
    }
    apart = {Requirement(name).name for names in special.values() for name in names}
    ours = [*metadata.requires("pyroclast"), *(each for each in metadata.requires("pyroclast-api") if "extra" not in each)]
    common = required(*(each for each in ours if Requirement(each).name not in {*apart, "pyroclast-api"}))
    for part, names in PARTS.PARTS.items():
        assert set(names) == required(*special.get(part, ())) - common, part
    cloud = required("pyroclast-api[cloud]") - common - {"pyroclast-api"}
    assert set(PARTS.LEFT_OUT) == cloud
    lock = (render.ROOT / "requirements.lock").read_text()
    parts = {part: set(re.findall(r"^([\w-]+)==", PARTS.locked(part, lock), re.MULTILINE)) for part in (*PARTS.PARTS, "shared")}
    assert {part: parts[part] for part in PARTS.PARTS} == {part: set(names) for part, names in PARTS.PARTS.items()}
    assert common <= parts["shared"]
    assert set.union(*parts.values(), cloud) == set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))


def test_build_requirements_are_pinned_to_the_versions_of_the_dev_lock():
    build = (render.ROOT / "requirements-build.lock").read_text()
    development = (render.ROOT / "requirements-dev.lock").read_text()
    for name, version in re.findall(r"^([\w-]+)==([^ ;]+)", build, re.MULTILINE):
        assert f"{name}=={version}" in development


def test_images_run_as_non_root_and_without_pip():
    final = TEXT.partition("AS trimmed")[2]
    assert "USER 65532:65532" in final
    assert "pip uninstall" in final
    assert final.index("USER") < final.index("ENTRYPOINT")


def test_pod_commands_run_the_modules_of_the_image_entrypoints(helm):
    commands = re.findall(r"command: \[python, -m, (\w+)\]", render.render(helm))
    assert sorted(commands) == sorted(TARGETS.values())
