"""What cannot be had is a failure here, unless skipping is allowed."""

from collections.abc import Callable
from typing import NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allow-skip", action="store_true", help="skip what cannot be had")


@pytest.fixture(scope="session")
def missing(request: pytest.FixtureRequest) -> Callable[[str], NoReturn]:
    """Called with the reason when something cannot be had."""

    def give_up(reason: str) -> NoReturn:
        if request.config.getoption("--allow-skip"):
            pytest.skip(reason)
        pytest.fail(f"{reason} (LILY_ALLOW_SKIP=1 skips this)")

    return give_up
