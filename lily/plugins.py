"""Finds plug-ins by name. Listing imports nothing; loading imports one module."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path as Folder
from typing import Any, Literal, get_args

import msgspec
from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from lily.errors import FieldError, Invalid, PluginError, Reject
from lily.notify import egress
from lily.sdk import Reaches

Kind = Literal[
    "hook", "source", "target", "filter", "webhook", "enforcer", "gateway", "engine", "enrichment"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MASK = "********"

Path = tuple[str | int, ...]
Secrets = list[tuple[Path, str]]


class Described(msgspec.Struct, frozen=True):
    """What can be said of an installed plug-in; `problem` when it does not load."""

    name: str
    kind: Kind
    package: str
    version: str
    summary: str = ""
    options: dict[str, Any] | None = None
    problem: str = ""


def installed(kind: Kind) -> list[EntryPoint]:
    return sorted(entry_points(group=f"lily.{kind}s"), key=lambda ep: ep.name)


def load(kind: Kind, name: str) -> type[Any]:
    """The plug-in's class, or a sentence that says what to install or remove."""
    match [ep for ep in installed(kind) if ep.name == name]:
        case [ep]:
            return _import(kind, ep)
        case []:
            known = ", ".join(dict.fromkeys(ep.name for ep in installed(kind))) or "none"
            raise PluginError(
                f"There is no {kind} {name!r}; installed: {known}; pip install lily-{name}?"
            )
        case several:
            owners = ", ".join(sorted({ep.dist.name for ep in several if ep.dist}))
            raise PluginError(
                f"{kind.capitalize()} {name!r} comes from more than one package: {owners};"
                " uninstall all but one."
            )


def check(kind: Kind, name: str, options: Mapping[str, Any]) -> BaseModel:
    """The options as the plug-in understands them; Invalid names each wrong one."""
    return _checked(load(kind, name), options)


def build(kind: Kind, name: str, options: Mapping[str, Any]) -> Any:
    """A plug-in ready to be called, built once per tenant connection."""
    plugin = load(kind, name)
    try:
        checked = _checked(plugin, options)
    except Invalid as cause:
        raise PluginError(f"{kind.capitalize()} {name!r} is misconfigured: {cause}") from None
    return plugin(checked)


def describe(kind: Kind) -> list[Described]:
    """Everything installed, each with the JSON schema of its options or why it does not load."""
    return [_described(kind, ep) for ep in installed(kind)]


def split(options: BaseModel) -> tuple[dict[str, Any], bytes | None]:
    """The options that may be shown, and apart from them those that must be sealed."""
    public = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
    found = list(_secrets(options.model_dump(by_alias=True, exclude_unset=True), ()))
    for path, _ in found:
        _put(public, path, MASK)
    return public, msgspec.json.encode(found) if found else None


def join(public: Mapping[str, Any], secrets: bytes | None) -> dict[str, Any]:
    """The options as they were given, for the plug-in alone."""
    whole: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(public))
    for path, value in msgspec.json.decode(secrets, type=Secrets) if secrets else ():
        if _get(whole, path) == MASK:
            _put(whole, path, value)
    return whole


def hidden(secrets: bytes | None) -> tuple[str, ...]:
    """The values that no message may repeat; very short ones would only garble it."""
    values = [value for _, value in msgspec.json.decode(secrets, type=Secrets)] if secrets else []
    return tuple(sorted((v for v in values if len(v) > 3), key=len, reverse=True))


def confine(options: BaseModel, folders: Sequence[Folder]) -> None:
    """Refuse paths outside of these folders: a tenant must not read what is not its own."""
    for path in _paths(options.model_dump()):
        real = path.resolve()
        if not any(real.is_relative_to(folder.resolve()) for folder in folders):
            allowed = ", ".join(map(str, folders))
            raise Invalid(f"{path} is not below {allowed}; see LILY_SOURCE_FOLDERS", "options")


def reach(source: object, allow: Sequence[str]) -> None:
    """Refuse a source whose servers are where outgoing calls may not go; says which setting."""
    if not isinstance(source, Reaches):
        return
    networks = egress.networks(allow)
    for host in source.hosts():
        if host.startswith(("/", "@")):
            _socket(host, allow)
            continue
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue  # reading it will tell
        try:
            egress.allowed([str(info[4][0]) for info in found], networks)
        except Reject as refusal:
            raise Reject(f"{host} may not be reached: {refusal}") from None


def _socket(folder: str, allow: Sequence[str]) -> None:
    """Behind a socket of this machine may be Lily's own database."""
    if not any(each.startswith("/") and Folder(folder).is_relative_to(each) for each in allow):
        raise Reject(
            f"{folder} may not be reached: it is a socket of this machine; name a host, or add its"
            " folder to LILY_EGRESS_ALLOW"
        )


def _paths(value: object) -> Iterator[Folder]:
    if isinstance(value, Folder):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _paths(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item)


def _import(kind: Kind, ep: EntryPoint) -> type[Any]:
    try:
        plugin: type[Any] = ep.load()
    except Exception as cause:
        package = ep.dist.name if ep.dist else ep.value
        raise PluginError(
            f"{kind.capitalize()} {ep.name!r} ({ep.value}) does not import:"
            f" {type(cause).__name__}: {cause}; reinstall or repair {package}."
        ) from cause
    options = getattr(plugin, "Options", None)
    if not (isinstance(options, type) and issubclass(options, BaseModel)):
        raise PluginError(
            f"{kind.capitalize()} {ep.name!r} ({ep.value}) has no nested pydantic Options;"
            " a plug-in is a class with one, see lily.sdk."
        )
    return plugin


def _checked(plugin: type[Any], options: Mapping[str, Any]) -> BaseModel:
    try:
        checked: BaseModel = plugin.Options.model_validate(options)
    except ValidationError as cause:
        # The text of a ValidationError repeats the input, secrets included: hence `from None`.
        raise Invalid(_wrong(cause)) from None
    return checked


def _described(kind: Kind, ep: EntryPoint) -> Described:
    package, version = (ep.dist.name, ep.dist.version) if ep.dist else ("", "")
    try:
        plugin = load(kind, ep.name)
    except PluginError as problem:
        return Described(ep.name, kind, package, version, problem=str(problem))
    summary = (plugin.__doc__ or "").strip().partition("\n")[0]
    return Described(ep.name, kind, package, version, summary, plugin.Options.model_json_schema())


def _wrong(cause: ValidationError) -> list[FieldError]:
    return [
        FieldError(".".join(["options", *map(str, e["loc"])]), _unquoted(e["msg"], e["input"]))
        for e in cause.errors(include_url=False, include_context=False)
    ]


def _unquoted(message: str, given: object) -> str:
    """A validator may quote what it was given, and that may be a secret."""
    if isinstance(given, SecretStr | SecretBytes):
        given = given.get_secret_value()
    if isinstance(given, str) and given and given in message:
        return message.replace(given, MASK)
    return message.removeprefix("Value error, ")


def _secrets(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, SecretStr):
        yield path, value.get_secret_value()
    elif isinstance(value, SecretBytes):
        yield path, value.get_secret_value().decode()
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _secrets(item, (*path, index))


def _get(whole: Any, path: Path) -> object:
    for step in path:
        try:
            whole = whole[step]
        except (KeyError, IndexError, TypeError):
            return None
    return whole


def _put(whole: Any, path: Path, value: str) -> None:
    for step in path[:-1]:
        whole = whole[step]
    whole[path[-1]] = value
