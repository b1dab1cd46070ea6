"""Secrets that clients left which died."""

from pyroclast_client.orphans import orphans

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
