from __future__ import annotations

import pytest

from pyroclast.runtime.flags import FlagError, FlagKind, read_flags


def test_read_flags_accepts_logtostderr_and_skips_a_stderr_redirection() -> None:
    assert read_flags(["--logtostderr", "--a=b", "2>&1"], {"a": FlagKind.VALUE}) == {"logtostderr": "true", "a": "b"}
    with pytest.raises(FlagError):
        read_flags(["2>&2"], {})
