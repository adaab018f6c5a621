"""Filter `redact`: what leaves the house, and what of it."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lily.connectors.patterns import admitted
from lily.sdk import Notice

MASK = "[hidden]"
TEXTS = ("title", "text", "by", "url")


class Redact:
    """Hides what matches a pattern, drops and renames fields, keeps kinds in, adds fields."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        channels: list[str] = Field(
            default_factory=list, max_length=100,
            description="Names of the connections that it is for; none named means all.",
        )  # fmt: skip
        patterns: list[Annotated[str, AfterValidator(admitted)]] = Field(
            default_factory=list, max_length=50, description="What matches one is hidden."
        )
        drop_fields: list[str] = Field(
            default_factory=list, max_length=100,
            description="Names of fields and of keys in the data to leave out; * is wild.",
        )  # fmt: skip
        rename_fields: dict[str, str] = Field(default_factory=dict, max_length=100)
        keep_in: list[str] = Field(
            default_factory=list, max_length=100, description="Kinds of facts that never leave."
        )
        add_fields: dict[str, str] = Field(default_factory=dict, max_length=20)

    def __init__(self, options: Options) -> None:
        self._options = options
        self._patterns = [re.compile(each, re.IGNORECASE) for each in options.patterns]

    def __call__(self, notice: Notice, channel: str) -> Notice | None:
        options = self._options
        if notice.kind in options.keep_in:
            return None
        fields = {
            options.rename_fields.get(name, name): self._hidden(value)
            for name, value in notice.fields.items()
            if not self._dropped(name)
        }
        texts = {name: self._hidden(getattr(notice, name)) for name in TEXTS}
        asset = notice.asset
        if asset is not None:
            asset = msgspec.convert(self._within(msgspec.to_builtins(asset)), type(asset))
        return msgspec.structs.replace(
            notice,
            **texts,
            fields={**fields, **options.add_fields},
            labels=[self._hidden(each) for each in notice.labels],
            asset=asset,
            data=self._within(notice.data),
        )

    def _dropped(self, name: str) -> bool:
        return any(fnmatchcase(name, each) for each in self._options.drop_fields)

    def _hidden(self, text: str) -> str:
        """Line by line: what a pattern may cost grows with the length of what it looks at."""
        for pattern in self._patterns:
            text = "\n".join(pattern.sub(MASK, each) for each in text.split("\n"))
        return text

    def _within(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._hidden(value)
        if isinstance(value, dict):
            return {
                self._hidden(key): self._within(each)
                for key, each in value.items()
                if not self._dropped(key)
            }
        return [self._within(each) for each in value] if isinstance(value, list) else value
