"""The page of codes names every code that a user can meet."""

from __future__ import annotations

import re
from pathlib import Path

from pyroclast.api.pending import NO_SCHEDULER, PendingReason
from pyroclast.views import waiting_causes
from pyroclast.views.explanation import HELP

PAGE = (Path(__file__).parents[3] / "docs" / "codes.md").read_text()
WORKED_OUT = {
    waiting_causes.SUSPENDED,
    waiting_causes.CLAIM_MISSING,
    waiting_causes.PODS_REFUSED,
    NO_SCHEDULER,
    waiting_causes.NOT_EXAMINED,
    waiting_causes.STARTING,
}


def test_every_code_has_its_place_on_the_page_and_a_word_of_help():
    codes = {*map(str, PendingReason), *WORKED_OUT}
    assert set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == codes == set(map(str, HELP))


def test_the_page_and_explain_advise_the_same():
    for code, advice in HELP.items():
        part = PAGE.partition(f"\n### {code}\n")[2].partition("\n#")[0]
        assert f"- What helps: {advice[0].upper()}{advice[1:]}." in part, code
