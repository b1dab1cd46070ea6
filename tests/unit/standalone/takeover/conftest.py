"""Our programs are asked as processes, once: they say the same each time."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast_standalone.takeover import answers

ANSWERS: dict[tuple[Any, ...], bytes] = {}


@pytest.fixture(autouse=True)
def asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = answers._output

    async def output(*arguments: str, **options: Any) -> bytes:
        question = (arguments, *options.items())
        if question not in ANSWERS:
            ANSWERS[question] = await ask(*arguments, **options)
        return ANSWERS[question]

    monkeypatch.setattr(answers, "_output", output)
