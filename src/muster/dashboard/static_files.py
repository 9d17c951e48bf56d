"""The files of the page, which are part of the package.

Rule: a file is served by a plain name, and only with a type of the table; no name leads out of the folder.
"""

import re
from importlib.resources import files

from starlette.responses import Response

from muster.dashboard.answers import refuse

CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\.(css|html|js|png|svg)")
FOLDER = files("muster.dashboard") / "page"


def serve_file(name: str) -> Response:
    """A file of the page by its name; 404 where there is none."""
    known = FILE_NAME.fullmatch(name)
    file = FOLDER / name if known else None
    if known is None or file is None or not file.is_file():
        return refuse(404, "there is no such file", "the page is at /")
    return Response(file.read_bytes(), media_type=CONTENT_TYPES[known[1]])
