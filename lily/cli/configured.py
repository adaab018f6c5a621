"""Settings for a command, or one sentence about what is wrong with them."""

from tomllib import TOMLDecodeError
from typing import TYPE_CHECKING, Any

from lily.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from lily.settings import Settings


def settings(**flags: Any) -> "Settings":
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from lily.settings import load

    try:
        return load(**flags)
    except ValidationError as cause:
        wrong = "; ".join(
            f"LILY_{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in cause.errors()
        )
        raise Failure(f"A setting is wrong: {wrong}.", USAGE) from None
    except (SettingsError, TOMLDecodeError) as cause:
        raise Failure(f"The settings cannot be read: {cause}.", USAGE) from None
