"""The current folder of a Job that travels to the cluster."""

import io
import os
import tarfile

import pytest

from pyroclast_cli.flags import Failure
from pyroclast_cli.slurm import submitting


def names(packed):
    if not packed:
        return []
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return sorted(tar.getnames())


def test_a_small_folder_travels_with_a_command_but_no_home_folder_does_unasked(tmp_path, monkeypatch):
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "train.py").write_text("pass")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    assert names(submitting.archive({}, "srun")) == [".", "./train.py"]
    assert names(submitting.archive({"volume": ["data:/data"]}, "srun")) == []
    assert names(submitting.archive({}, "sbatch")) == []
    monkeypatch.chdir(tmp_path)
    assert names(submitting.archive({}, "srun")) == []
    assert "./project/train.py" in names(submitting.archive({"folder": ["copy"]}, "sbatch"))


def test_a_file_that_cannot_be_read_and_a_user_without_a_name_are_no_mistakes_of_ours(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "./secret")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tarfile.TarFile, "add", refuse)
    with pytest.raises(Failure, match=r"^\./secret: Permission denied; --folder=none submits without the folder$"):
        submitting.archive({}, "srun")

    def unknown(*_):
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert submitting.here().user == str(os.getuid())


def test_a_folder_that_is_too_large_is_refused_with_its_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(60 * submitting.MOST_BYTES)
    with pytest.raises(Failure, match=r"has more than [0-9,]+ bytes, and at most 900,000 travel"):
        submitting.archive({}, "srun")
    with pytest.raises(Failure, match='"maybe" is not copy or none'):
        submitting.archive({"folder": ["maybe"]}, "srun")
