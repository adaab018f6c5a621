"""XML with assets, read as a stream.

    <assets>
      <asset>
        <qualified_name>db/people</qualified_name>
        <tags><tag>PII</tag></tags>
        <business_terms><term>Customer</term></business_terms>
        <metadata><entry key="rows">5</entry></metadata>
      </asset>
    </assets>

An element is called as its field. A value of metadata is read as JSON if it is JSON, else as a
text; an entry may hold entries.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax import SAXException
from xml.sax.handler import ContentHandler

from defusedxml import DefusedXmlException
from defusedxml.sax import make_parser

from lily.errors import Invalid, Unreadable
from lily.formats.columns import LISTS, OBJECTS, SWITCHES, TEXTS, document, value
from lily.formats.records import Record

BLOCK = 1 << 16
ROOT, ITEM, ENTRY = "assets", "asset", "entry"
LABELS = ("tag", "term", "item")
DEEPEST = 100


def from_xml(path: Path) -> Iterator[Record]:
    """Raises Invalid when the outermost element is another, Unreadable when it is not XML."""
    found = _read(path)
    try:
        first = next(found, None)
    except SAXException as cause:
        raise Unreadable(f"The file is not XML: {cause.getMessage()}.") from None
    return _all(first, found)


def _all(first: Record | None, rest: Iterator[Record]) -> Iterator[Record]:
    if first is not None:
        yield first
        yield from rest


def _read(path: Path) -> Iterator[Record]:
    parser = make_parser()
    handler = _Assets(parser.getLineNumber)
    parser.setContentHandler(handler)
    with path.open("rb") as file:
        try:
            while block := file.read(BLOCK):
                parser.feed(block)
                yield from handler.take()
            parser.close()
        except DefusedXmlException:
            raise Unreadable("The file defines entities or a DTD, which is not allowed.") from None
        except SAXException as cause:
            yield from handler.take()
            if not handler.inside:
                raise
            yield Record(handler.line(), None, f"the XML cannot be read on: {cause.getMessage()}")
            return
    yield from handler.take()


class _Assets(ContentHandler):
    """Collects one asset at a time."""

    def __init__(self, line: Callable[[], int]) -> None:
        super().__init__()
        self.line = line
        self.found: list[Record] = []
        self.inside = False
        self._begun = 0
        self._path: list[str] = []
        self._text: list[str] = []
        self._cells: dict[str, Any] = {}
        self._keys: list[str] = []
        self._rooms: list[dict[str, Any]] = []
        self._wrong = ""

    def take(self) -> list[Record]:
        found, self.found = self.found, []
        return found

    def startElement(self, name: str, attrs: Any) -> None:
        depth = len(self._path)
        self._path.append(name)
        self._text = []
        if depth == 0:
            if name != ROOT:
                raise Invalid(f"must be <{ROOT}>, not <{name}>", "root element")
            self.inside = True
        elif depth == 1:
            self._begun, self._cells, self._wrong = self.line(), {}, ""
            if name != ITEM:
                self._wrong = f"an element <{name}> is not known; it must be <{ITEM}>"
        elif depth == 2:
            self._open_field(name)
        else:
            self._open_inner(name, attrs)

    def _open_field(self, name: str) -> None:
        if name in OBJECTS:
            self._rooms = [self._cells.setdefault(name, {})]
            self._keys = []
        elif name in LISTS:
            self._cells.setdefault(name, [])
        elif name not in TEXTS and name not in SWITCHES:
            self._wrong = self._wrong or f"{name}: is not known; put it in metadata"

    def _open_inner(self, name: str, attrs: Any) -> None:
        field = self._path[2]
        if field in OBJECTS and name == ENTRY and attrs.get("key") and len(self._path) < DEEPEST:
            if len(self._rooms) < len(self._path) - 3:
                inner: dict[str, Any] = {}
                self._rooms[-1][self._keys[-1]] = inner
                self._rooms.append(inner)
            self._keys.append(attrs["key"])
        elif field not in LISTS or name not in LABELS or len(self._path) > 4:
            self._wrong = self._wrong or f"{field}: <{name}> is not known here"
            self._keys.append("")

    def characters(self, content: str) -> None:
        self._text.append(content)

    def endElement(self, name: str) -> None:
        depth, text = len(self._path), "".join(self._text)
        field = self._path[2] if depth > 2 else ""
        if depth == 2:
            self._end_asset()
        elif depth == 3 and (field in TEXTS or field in SWITCHES) and text != "":
            self._cells[field] = text
        elif depth > 3:
            self._end_inner(field, text)
        self._path.pop()
        self._text = []

    def _end_inner(self, field: str, text: str) -> None:
        if field in LISTS and len(self._path) == 4:
            self._cells[field].append(text)
        elif field in OBJECTS and self._keys:
            key = self._keys.pop()
            if len(self._rooms) > len(self._path) - 3:
                self._rooms.pop()
            elif key:
                self._rooms[-1][key] = value(text, typed=False)

    def _end_asset(self) -> None:
        if self._wrong:
            self.found.append(Record(self._begun, None, self._wrong))
            return
        plain = {k: v for k, v in self._cells.items() if k not in OBJECTS}
        rooms = {k: v for k, v in self._cells.items() if k in OBJECTS and v}
        try:
            made = document(list(plain), list(plain.values()), typed=False)
        except Invalid as wrong:
            self.found.append(Record(self._begun, None, str(wrong)))
            return
        self.found.append(Record(self._begun, {**made, **rooms}))
