"""Stores in claims: what their URLs may be, and what pods get of them."""

import base64
import os

import pytest

from pyroclast_client import errors
from pyroclast_client.claims import claim_of
from pyroclast_client.compilation import Surroundings, compiled
from pyroclast_client.options import options_of
from pyroclast_client.payload import Arguments, secret_data
from pyroclast_client.runner import sealing


@pytest.mark.parametrize(
    ("store", "claim"),
    [(None, ""), ("file:///a", ""), ("s3://b/c", ""), ("pvc://scratch", "scratch"), ("pvc://a.b-1/deep/folder", "a.b-1")],
)
def test_the_claim_of_a_store(store, claim):
    assert claim_of(store) == claim


@pytest.mark.parametrize("store", ["pvc://", "pvc:///folder", "pvc://Big/x", "pvc://a/../b", "pvc://a/b/.."])
def test_a_store_that_names_no_claim_is_told(store):
    with pytest.raises(errors.Usage, match="pvc://CLAIM/folder"):
        claim_of(store)


def test_pods_mount_the_claim_and_know_where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    around = Surroundings("default", image="py", store="pvc://scratch/results")
    made = compiled(lambda: 1, [Arguments()], options_of({}), around, name="f")
    pod = made.job["spec"]["tasks"][0]["template"]["spec"]
    container = pod["containers"][0]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "scratch"}} in pod["volumes"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "store"]
    assert {"name": sealing.CLAIMS, "value": f"scratch={mount['mountPath']}"} in container["env"]


def test_a_claim_that_is_not_mounted_here_takes_no_large_code(tmp_path, monkeypatch):
    large = {"payload": os.urandom(800 << 10)}
    with pytest.raises(errors.Usage, match=r"claim scratch is not mounted here.*PYROCLAST_CLAIMS"):
        secret_data(large, "pvc://scratch/results")
    monkeypatch.setenv(sealing.CLAIMS, f"scratch={tmp_path}")
    data = secret_data(large, "pvc://scratch/results")
    assert b"pvc://scratch/results" in base64.b64decode(data["payload.json"])
    (written,) = (tmp_path / "results" / "code").iterdir()
    assert written.read_bytes() == large["payload"]


def test_nothing_is_seen_in_the_store_before_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv(sealing.CLAIMS, f"scratch={tmp_path}")
    seen = []
    replace = type(tmp_path).replace

    def looking(path, target):
        seen.append((path.name != target.name, target.exists(), path.read_bytes()))
        return replace(path, target)

    monkeypatch.setattr(type(tmp_path), "replace", looking)
    sealing.put("pvc://scratch/a", "name", b"whole")
    assert seen == [(True, False, b"whole")]
    assert sealing.got("pvc://scratch/a", "name") == b"whole"
