from __future__ import annotations

import pytest

from pyroclast.runtime.flags import FlagError, FlagKind, read_flags


def test_what_manifests_of_the_original_leave_behind_is_passed_over() -> None:
    assert read_flags(["--logtostderr", "--a=b", "2>&1"], {"a": FlagKind.VALUE}) == {"logtostderr": "true", "a": "b"}
    with pytest.raises(FlagError):
        read_flags(["2>&2"], {})
