"""Images: that what they name exists."""

import re

import pytest
import yaml

from tests.unit.chart import render

DOCKERFILE = (render.ROOT / "Dockerfile").read_text()
TARGETS = dict(
    re.findall(r"^FROM runtime AS (\S+)\n(?:EXPOSE .*\n)?ENTRYPOINT \[\"python\", \"-m\", \"(\w+)\"\]$", DOCKERFILE, re.MULTILINE)
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


@pytest.mark.parametrize("folder", re.findall(r"^COPY (\w+) \w+$", DOCKERFILE, re.MULTILINE))
def test_copied_folder_exists_and_is_not_ignored_by_docker(folder):
    assert (render.ROOT / folder).is_dir()
    assert f"!{folder}" in (render.ROOT / ".dockerignore").read_text().splitlines()


def test_copied_lock_files_exist_and_are_not_ignored_by_docker():
    copied = [name for names in re.findall(r"^COPY (.*) \./$", DOCKERFILE, re.MULTILINE) for name in names.split()]
    assert "requirements.lock" in copied
    for name in copied:
        assert (render.ROOT / name).is_file()
        assert f"!{name}" in (render.ROOT / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_pip_installs_only_pinned_and_hashed_packages_into_images(lock):
    assert f"install --require-hashes --requirement {lock}" in DOCKERFILE
    pinned = re.split(r"\n(?=\S)", (render.ROOT / lock).read_text().strip())
    assert all("==" in each and "--hash=sha256:" in each for each in pinned)
    installs = re.findall(r"pip [^&\n]*\binstall\b[^&\n]*", DOCKERFILE)
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_build_requirements_are_pinned_to_the_versions_of_the_dev_lock():
    build = (render.ROOT / "requirements-build.lock").read_text()
    development = (render.ROOT / "requirements-dev.lock").read_text()
    for name, version in re.findall(r"^([\w-]+)==([^ ;]+)", build, re.MULTILINE):
        assert f"{name}=={version}" in development


def test_images_run_as_non_root_and_without_pip():
    final = DOCKERFILE.partition("AS runtime")[2]
    assert "USER 65532:65532" in final
    assert "pip uninstall" in final
    assert final.index("USER") < final.index("ENTRYPOINT")


def test_pod_commands_run_the_modules_of_the_image_entrypoints(helm):
    commands = re.findall(r"command: \[python, -m, (\w+)\]", render.render(helm))
    assert sorted(commands) == sorted(TARGETS.values())
