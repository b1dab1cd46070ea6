"""Secrets that clients that died left, and the notes with which they are found."""

from __future__ import annotations

from pyroclast.api.types import Key
from pyroclast_client.orphans import PendingSecrets, orphans

ONE, TWO, OTHER = Key("team", "a-code"), Key("team", "b-code"), Key("team-b", "a-code")


def test_pending_secret_is_kept_per_server_and_namespace_until_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for each in (TWO, ONE, OTHER):
        PendingSecrets("https://one").note(each)
    again = PendingSecrets("https://one")
    assert again.of("team") == [ONE, TWO]
    assert again.of("team-b") == [OTHER]
    assert PendingSecrets("https://two").of("team") == []
    again.forget(ONE)
    again.forget(ONE)
    assert again.of("team") == [TWO]


def test_pending_secrets_are_empty_when_the_state_directory_is_not_writable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    pending = PendingSecrets("https://one")
    pending.note(ONE)
    pending.forget(ONE)
    assert pending.of("team") == []


NOW = 1_800_000_000.0


def secret(name, created, *owners):
    return {"metadata": {"name": name, "creationTimestamp": created, "ownerReferences": list(owners)}}


def test_only_old_secrets_without_an_owner_are_orphans():
    found = orphans(
        [
            secret("old", "2027-01-15T06:00:00Z"),
            secret("young", "2027-01-15T07:30:00Z"),
            secret("owned", "2027-01-15T06:00:00Z", {"uid": "u"}),
        ],
        NOW,
    )
    assert [each["name"] for each in found] == ["old"]
