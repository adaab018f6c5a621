"""What several tests of flows share."""

from collections.abc import Iterator

import pytest

from lily.wiring import Core
from tests.flow.corridor import Corridor


@pytest.fixture(scope="module")
def corridor(system: Core, log_url: str) -> Iterator[Corridor]:
    """The ingest job of the shared Lily, which works when told to, on whatever the log is."""
    built = Corridor(system)
    yield built
    built.close()
