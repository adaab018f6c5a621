"""Commands that talk to a running Lily: where it is and who asks are options of each of them."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from lily.cli import options

if TYPE_CHECKING:
    from lily.cli.client import Client

Online = Callable[[], "Client"]  # logs in when called: what the command was given is read before


def online_command(command: Callable[..., None]) -> Callable[..., None]:
    """The command with `--home`, `--url` and `--token` in place of its first parameter."""
    own = dict(list(signature(command).parameters.items())[1:])
    where = dict(signature(_where).parameters)

    @wraps(command)
    def asked(**given: Any) -> None:
        from lily.cli.client import connect

        found = [given.pop(name) for name in where]
        command(partial(connect, *found), **given)

    return with_options(asked, _before_json(own, where))


def with_options(command: Callable[..., None], wanted: dict[str, Parameter]) -> Callable[..., None]:
    """The same command, as if its parameters had been written out."""
    command.__signature__ = Signature(list(wanted.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {name: each.annotation for name, each in wanted.items()}
    return command


def _where(
    home: options.Home = None, url: options.Url = None, token: options.Token = None
) -> None: ...


def _before_json(own: dict[str, Parameter], where: dict[str, Parameter]) -> dict[str, Parameter]:
    """In the order of the help: `--json` stands last."""
    last = {name: each for name, each in own.items() if name == "as_json"}
    first = {name: each for name, each in own.items() if name != "as_json"}
    return {**first, **where, **last}
