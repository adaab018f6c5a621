"""Field types that several requests share."""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints

Item = TypeVar("Item")


def storable(text: str) -> str:
    """Text that a database and a log line can hold."""
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise ValueError("may not contain control characters or broken Unicode")
    return text


def _storable_secret(secret: SecretStr) -> SecretStr:
    storable(secret.get_secret_value())
    return secret


Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    AfterValidator(storable),
]
Loose = Annotated[str, StringConstraints(max_length=300), AfterValidator(storable)]
Username = Annotated[str, StringConstraints(pattern=r"^[^\s/:]{1,100}$"), AfterValidator(storable)]
TenantName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Secret = Annotated[SecretStr, AfterValidator(_storable_secret)]
NewSecret = Annotated[Secret, Field(description="At least 10 characters.")]


class Request(BaseModel):
    """A body that may hold nothing but its fields."""

    model_config = ConfigDict(extra="forbid")


def example(body: dict[str, Any]) -> ConfigDict:
    """The configuration of a request that shows how it looks."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [body]})


class Shown(BaseModel):
    """What is shown of a stored value."""

    model_config = ConfigDict(from_attributes=True)


class Page(BaseModel, Generic[Item]):
    """One page; `next` goes into `after` of the following request, null at the end."""

    items: list[Item]
    next: str | None = None


def next_of(items: list[Any], limit: int, key: str) -> str | None:
    return str(getattr(items[-1], key)) if len(items) == limit else None
