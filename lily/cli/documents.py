"""A JSON document as an argument: in place, in a file, or on standard input."""

import json
import sys
from typing import Any

from lily.cli.failures import USAGE, Failure


def read(document: str) -> Any:
    """`@name` is a file, `-` standard input, anything else the JSON itself."""
    try:
        if document == "-":
            return json.load(sys.stdin)
        if document.startswith("@"):
            with open(document[1:], encoding="utf-8") as file:
                return json.load(file)
        return json.loads(document)
    except OSError as cause:
        raise Failure(f"{document[1:]} cannot be read: {cause.strerror}.", USAGE) from cause
    except ValueError as cause:
        raise Failure(f"This is not JSON: {cause}. Quote it with '…'.", USAGE) from cause
