"""Files of the page: by a plain name, with a type of the table, and never from outside of the folder."""

import pytest

from muster.dashboard.static_files import CONTENT_TYPES, FOLDER, serve_file


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../server.py",
        "..%2fserver.py",
        "server.py",
        "index.html\0",
        "a/../index.html",
        "/etc/passwd",
        "INDEX.HTML",
        "index.htm",
        "x.js.map",
        ".js",
        "none.js",
        "a" * 300 + ".js",
    ],
)
def test_what_is_no_file_of_the_page_is_not_served(name: str) -> None:
    assert serve_file(name).status_code == 404


def test_every_file_of_the_page_is_served_with_its_type() -> None:
    for file in FOLDER.iterdir():
        answered = serve_file(file.name)
        assert answered.status_code == 200, file.name
        assert answered.headers["content-type"] == CONTENT_TYPES[file.name.rpartition(".")[2]]
        assert answered.body == file.read_bytes()
