"""What must be true after faults: a model of every write, and what its answer promised."""

import re
from dataclasses import dataclass, field

EDITION = re.compile(r"edition (\d+)")


@dataclass
class Writes:
    """The editions sent of one asset: promised ones must be there, doubtful ones may be."""

    guid: str = ""
    sent: int = 0
    promised: int = 0
    doubtful: set[int] = field(default_factory=set)

    def next(self) -> int:
        self.sent += 1
        return self.sent

    def promise(self, edition: int, guid: str) -> None:
        self.promised, self.guid = max(self.promised, edition), guid

    def doubt(self, edition: int) -> None:
        self.doubtful.add(edition)

    def judge(self, description: str | None) -> str | None:
        """What is wrong with what is stored; None when nothing is."""
        found = EDITION.search(description or "")
        if found is None:
            return f"edition {self.promised} was acknowledged and nothing is there"
        edition = int(found.group(1))
        if edition == self.promised or (edition > self.promised and edition in self.doubtful):
            return None
        return f"edition {self.promised} was acknowledged and edition {edition} is there"
