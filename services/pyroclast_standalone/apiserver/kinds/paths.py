"""Paths of files that objects name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid

__all__ = ["check_descending", "check_local", "check_mode", "check_no_backsteps"]

_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def check_no_backsteps(target: str, path: str) -> list[FieldError]:
    """`target` may not go up."""
    goes_up = ".." in target and ".." in target.split("/")
    return [invalid(path, target, "must not contain '..'")] if goes_up else []


def check_descending(target: str, path: str) -> list[FieldError]:
    """`target` may only go down from where it is used."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return [*errors, *check_no_backsteps(target, path)]


def check_local(holder: Mapping[str, Any], field: str, path: str) -> list[FieldError]:
    """`field` goes down and has no name that the writer of volumes uses itself."""
    target = holder.get(field, "")
    if ".." not in target and not target.startswith("/"):
        return []
    errors = check_descending(target, f"{path}.{field}")
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(f"{path}.{field}", target, "must not start with '..'"))
    return errors


def check_mode(holder: Mapping[str, Any], field: str, path: str) -> list[FieldError]:
    """`field`, if given, is the mode of a file."""
    mode = holder.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{field}", mode, _MODE)]
