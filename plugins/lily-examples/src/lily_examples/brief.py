"""A filter: long texts are cut before they leave."""

import msgspec
from pydantic import BaseModel, Field

from lily.sdk import Notice


class Brief:
    """Keeps the first letters of a notice's text."""

    class Options(BaseModel):
        letters: int = Field(200, ge=1)

    def __init__(self, options: Options) -> None:
        self._letters = options.letters

    def __call__(self, notice: Notice, channel: str) -> Notice | None:
        if len(notice.text) <= self._letters:
            return notice
        return msgspec.structs.replace(notice, text=notice.text[: self._letters - 1] + "…")
