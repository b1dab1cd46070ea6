"""The list of codes is whole, and the page is made from it."""

from __future__ import annotations

import re
from pathlib import Path

from pyroclast.api.waiting_codes import CODES, Stage, codes_page
from pyroclast.api.waiting_reasons import PendingReason

PAGE = Path(__file__).parents[3] / "docs" / "codes.md"


def test_waiting_codes_list_every_pending_reason_ordered_by_stage():
    assert list(CODES) == list(PendingReason)
    stages = [facts.stage for facts in CODES.values()]
    assert stages == sorted(stages, key=list(Stage).index)


def test_codes_page_is_generated_from_the_waiting_codes():
    text = PAGE.read_text(encoding="utf-8")
    assert text == codes_page()
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(PendingReason)
