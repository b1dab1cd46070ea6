"""What is ignored: the same as git says."""

import shutil
import subprocess

import pytest

from pyroclast_client.modules import ignored_in

ROOT = """
# comments and blanks are nothing

*.log
!kept.log
/top
build/
docs/*.txt
**/deep/x?.bin
cache/**
[ab].dat
a/**/z
"""
NESTED = "inner.py\n!again.log\n"
PATHS = [
    *("a.log", "src/b.log", "kept.log", "src/kept.log", "top", "src/top", "build/x.py", "src/build/y/z.py", "build.py"),
    *("docs/a.txt", "docs/in/a.txt", "src/docs/a.txt", "deep/x1.bin", "a/b/deep/xy.bin", "deep/x12.bin", "cache/a/b"),
    *("a.dat", "c.dat", "a/z", "a/b/c/z", "src/inner.py", "inner.py", "src/again.log", "src/main.py", "src/more/inner.py"),
]


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed here")
def test_files_are_ignored_as_git_ignores_them(tmp_path):
    (tmp_path / ".gitignore").write_text(ROOT)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".gitignore").write_text(NESTED)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = ["git", "-C", str(tmp_path), "check-ignore", "--stdin", "--no-index"]
    said = subprocess.run(command, input="\n".join(PATHS), capture_output=True, text=True, check=False)
    is_ignored = ignored_in(tmp_path)
    assert {path for path in PATHS if is_ignored(path)} == set(said.stdout.split())
    assert 10 < len(said.stdout.split()) < len(PATHS) - 5


def test_nothing_is_ignored_without_a_gitignore_file(tmp_path):
    assert not ignored_in(tmp_path)("a/b.py")
