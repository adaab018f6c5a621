"""The first start: tenant, admin, and a password that a crash cannot lose."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import SecretStr

from lily.cli import home

if TYPE_CHECKING:
    from lily.settings import Settings
    from lily.wiring import Credentials

DRAFT = "credentials.draft"


def first_start(settings: "Settings") -> bool:
    """Make tenant and admin if there are none; True when credentials were written.

    A made-up password is on disk before the admin exists. If we die right after making the admin,
    the next start finds it there.
    """
    draft = settings.home / DRAFT
    unfinished = draft.exists()
    made = _bootstrap(settings.model_copy(update={"admin_password": _password(settings)}))
    if made is not None:
        home.write_credentials(settings.home, asdict(made))
    elif unfinished and home.read_credentials(settings.home) is None:
        known = {"tenant": "default", "username": "admin", "password": draft.read_text()}
        home.write_credentials(settings.home, {"url": settings.url, **known})
    else:
        home.keep_url(settings.home, settings.url)
    draft.unlink(missing_ok=True)
    return made is not None


def _password(settings: "Settings") -> SecretStr:
    """The one that was configured, else that of an unfinished start, else a new one."""
    from lily.identity import passwords

    if settings.admin_password is not None:
        return settings.admin_password
    draft = settings.home / DRAFT
    if not draft.exists():
        home.write_private(draft, passwords.made_up())
    return SecretStr(draft.read_text())


def _bootstrap(settings: "Settings") -> "Credentials | None":
    from lily import wiring

    core = wiring.core(settings, "lily_app", pool=2)
    try:
        return wiring.bootstrap(core)
    finally:
        core.close()
