"""Words for targets: cut where a vendor cuts, and never in the middle of a character."""

import html

MORE = "…"


def cut(text: str, most: int) -> str:
    """No more than so many characters; what was cut ends with an ellipsis."""
    return text if len(text) <= most else text[: max(0, most - len(MORE))].rstrip() + MORE


def cut_bytes(text: str, most: int) -> str:
    """No more than so many bytes of UTF-8."""
    raw = text.encode()
    if len(raw) <= most:
        return text
    kept = raw[: max(0, most - len(MORE.encode()))].decode("utf-8", "ignore")
    return kept.rstrip() + MORE


def line(text: str, most: int) -> str:
    """One line of it."""
    return cut(" ".join(text.split()), most)


def escaped(text: str) -> str:
    """For HTML."""
    return html.escape(text)
