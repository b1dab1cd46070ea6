"""The static files: the style sheet, the script and the icon."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from aiohttp import web

from pyroclast.pictures.svg import STYLE
from pyroclast_board.pages.base import NoPage

TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Static:
    """The static files in memory, by path, each with an entity tag of its content."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for file in files("pyroclast_board").joinpath("static").iterdir():
            kind = file.name.rpartition(".")[2]
            if kind in TYPES:
                content = file.read_bytes() + (STYLE.encode() if kind == "css" else b"")
                tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
                self._files[f"/static/{file.name}"] = (content, TYPES[kind], tag)

    def answer(self, request: web.BaseRequest, headers: Mapping[str, str]) -> web.Response:
        """Return a file, or status 304 if the client has the current content.

        Raises:
            NoPage: no file has that name.
        """
        found = self._files.get(request.path)
        if found is None:
            raise NoPage
        content, kind, tag = found
        whole = {**headers, "Cache-Control": "no-cache", "ETag": tag}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=whole)
        response = web.Response(body=content, content_type=kind, charset="utf-8", headers=whole)
        response.enable_compression()
        return response
