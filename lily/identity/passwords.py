"""Passwords and secrets: argon2id, made up with care, compared in the same time for everyone."""

import secrets
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from lily.errors import Invalid

SHORTEST = 10
LONGEST = 200

# OWASP's choice for argon2id where memory counts: 19 MiB, two passes, one lane.
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_room = BoundedSemaphore(4)  # a flood of logins may not take all memory and cores


def hashed(password: str) -> str:
    with _room:
        return _hasher.hash(password)


def matches(password: str, stored: str | None) -> bool:
    """Compare with the stored hash; for an unknown user work as long, and refuse."""
    with _room:
        try:
            return _hasher.verify(stored or _NOBODY, password) and stored is not None
        except (Argon2Error, InvalidHashError):
            return False


def check_rules(password: str, username: str, field: str = "password") -> None:
    """Raise Invalid with what to change."""
    if len(password) < SHORTEST:
        raise Invalid(f"needs at least {SHORTEST} characters", field)
    if len(password) > LONGEST:
        raise Invalid(f"may have at most {LONGEST} characters", field)
    if password.casefold() == username.casefold() or len(set(password)) < 4:
        raise Invalid("is too easy to guess; use more different characters", field)


def made_up() -> str:
    """A password for a person to type once."""
    return secrets.token_urlsafe(15)


_NOBODY = (
    "$argon2id$v=19$m=19456,t=2,p=1$kkF2ZVPkYpFylNw+cyTk8A$"
    "f6kKdn69s6XtUmesuhj69k6BOGE0dnjhqVnir10vxPc"
)
