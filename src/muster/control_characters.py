"""Characters that a terminal obeys or hides, made visible: objects and files of others must not paint on a screen.

These are C0 and C1 controls (escape sequences begin with one), marks that change the direction of text, other
characters without a shape, and halves of characters, which cannot be written out at all.
"""

import re

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BUT_BREAKS = (
    "\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff"
)
_OBEYED, _OBEYED_IN_FILES = re.compile(f"[\n{_BUT_BREAKS}]"), re.compile(f"[{_BUT_BREAKS}]")
_FORGED_BREAK = re.compile(r"\n(?!  )")


def has_controls(text: str) -> bool:
    """Whether some character of the text is not shown as it is."""
    return _OBEYED.search(text) is not None


def visible(text: str) -> str:
    """One line of text, with an escape such as `\\x1b` in place of each of these characters."""
    return _OBEYED.sub(_escape, text)


def visible_lines(text: str) -> str:
    """A message, whose further lines are indented by two spaces; a line that is not is a break within a name."""
    shown = _FORGED_BREAK.sub(r"\\n", text)
    return "\n".join(visible(line) for line in shown.split("\n"))


def escape_json(text: str) -> str:
    """JSON that means the same: inside its strings, these characters as `\\u` escapes; its own line breaks stay."""
    return _OBEYED_IN_FILES.sub(_json_escape, text)


def escape_yaml(text: str) -> str:
    """YAML that means the same, where all text with these characters is in double quotes."""
    return _OBEYED_IN_FILES.sub(_yaml_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _NAMED.get(character) or _numbered(ord(character), {2: "\\x", 4: "\\u"})


def _yaml_escape(match: re.Match[str]) -> str:
    return _numbered(ord(match.group()), {4: "\\u"})


def _json_escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _numbered(code: int, prefixes: dict[int, str]) -> str:
    """The shortest escape that holds the number; `\\U` holds them all."""
    digits, mark = next(((digits, mark) for digits, mark in prefixes.items() if code < 16**digits), (8, "\\U"))
    return f"{mark}{code:0{digits}x}"
