"""Tables of Markdown."""


def row(*cells: str) -> str:
    """A row, with each cell on one line."""
    return "| " + " | ".join(" ".join(text.split()).replace("|", "\\|") for text in cells) + " |\n"
