"""Reads assets from a file of any size: a JSON array, one object, or an object a line."""

import json
from collections.abc import Iterator
from typing import IO, NamedTuple

CHUNK = 1 << 16
BLANK = " \t\r\n"


class Record(NamedTuple):
    """One value with the line it begins on; a reason instead where it cannot be read."""

    line: int
    value: object
    reason: str = ""


def read(file: IO[str]) -> Iterator[Record]:
    """In order, without holding the file in memory."""
    text = _Text(file)
    first = text.peek()
    if first == "[":
        yield from _array(text)
    elif first:
        yield from _objects(text)


class _Text:
    """A window that moves over a file and knows its line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._decoder = json.JSONDecoder()
        self._window = ""
        self._at = 0
        self.line = 1

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._window) and self._window[self._at] in BLANK:
                self.skip(1)
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._more(CHUNK):
                return ""

    def skip(self, count: int) -> None:
        self.line += self._window.count("\n", self._at, self._at + count)
        self._at += count

    def value(self) -> object:
        """The JSON value that begins here; raises ValueError if there is none."""
        size = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._window, self._at)
                if end < len(self._window) or not self._more(CHUNK):
                    self.skip(end - self._at)
                    return value
            except json.JSONDecodeError as cause:
                # Doubling keeps the work linear for a value larger than the window.
                if not _cut_off(cause, len(self._window)) or not self._more(size):
                    raise
                size *= 2

    def rest_of_line(self) -> None:
        while True:
            end = self._window.find("\n", self._at)
            if end >= 0:
                self.skip(end + 1 - self._at)
                return
            self._at = len(self._window)
            if not self._more(CHUNK):
                return

    def _more(self, size: int) -> bool:
        chunk = self._file.read(size)
        self._window = self._window[self._at :] + chunk
        self._at = 0
        return bool(chunk)


def _array(text: _Text) -> Iterator[Record]:
    text.skip(1)
    while (following := text.peek()) != "]":
        line = text.line
        if not following:
            yield Record(line, None, "the file ends before its list does")
            return
        try:
            value = text.value()
        except (ValueError, RecursionError) as cause:
            yield Record(line, None, f"this is not JSON: {_short(cause)}")
            return
        yield Record(line, value)
        if text.peek() == ",":
            text.skip(1)
        elif text.peek() != "]":
            yield Record(text.line, None, "a comma or the end of the list is missing")
            return


def _objects(text: _Text) -> Iterator[Record]:
    """A broken line costs that line only."""
    while text.peek():
        line = text.line
        try:
            yield Record(line, text.value())
        except (ValueError, RecursionError) as cause:
            yield Record(line, None, f"this is not JSON: {_short(cause)}")
            text.rest_of_line()


def _cut_off(cause: json.JSONDecodeError, length: int) -> bool:
    """Whether more text could still make it valid: a string may go on, a word may be half there."""
    return cause.msg.startswith("Unterminated string") or cause.pos > length - 12


def _short(cause: Exception) -> str:
    return getattr(cause, "msg", "") or "nested too deep"
