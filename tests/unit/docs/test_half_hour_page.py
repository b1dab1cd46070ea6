"""The page about the first half hour: every row names a test that there is, and none of the twelve is missing."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "first-half-hour.md").read_text()


def test_each_row_names_a_test():
    rows = [row.split("|")[1:-1] for row in PAGE.splitlines() if re.match(r"\| \d+ \|", row)]
    assert [int(number) for number, *_ in rows] == sorted(int(number) for number, *_ in rows)
    assert {int(number) for number, *_ in rows} == set(range(1, 13))
    assert all(re.search(r"::test_|the same", test) for *_, test in rows)


def test_the_tests_are_there():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 12
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / "e2e" / file).read_text(), f"{file}::{test}"
