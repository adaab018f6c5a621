"""What a target sees and says. A target never opens a socket: it asks, and the host does it.

That way every call is checked, limited, timed, retried and written down in one place, and a
target is plain code that can be tested without a network.
"""

from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import msgspec

from lily.errors import LilyError

Event = Literal["told", "opened", "changed", "acknowledged", "resolved"]
Severity = Literal["critical", "high", "medium", "low"]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The asset that a notice is about."""

    guid: str
    asset_id: str
    qualified_name: str
    name: str
    type: str
    owner: str = ""
    tags: list[str] = []


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody should know. `id` is the same on every try, `key` for all about one thing."""

    id: str
    key: str
    kind: str
    event: Event = "told"
    at: datetime
    by: str = ""
    title: str
    text: str = ""
    severity: Severity | None = None
    fields: dict[str, str] = {}
    labels: list[str] = []
    url: str = ""
    acknowledge_url: str = ""
    incident: str = ""
    asset: About | None = None
    data: dict[str, Any] = {}
    traceparent: str = ""
    handle: Any = None  # what the last send about this key returned
    unsure: bool = False  # an earlier try may have arrived: look before you make a second one
    echo: bool = False  # the other side knows, for it came from there: update, do not repeat
    sent_at: datetime | None = None  # of this try


class Call(msgspec.Struct, frozen=True):
    """One HTTP request. `label` is what people may see of it; without one they see the host."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    label: str = ""
    bearer: bool = False  # the host adds a token of the target's grant


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """OAuth 2.0: how a target's tokens are got. The host keeps them, also those that rotate."""

    token_url: str
    client_id: str
    client_secret: str
    refresh_token: str = ""  # the first one; without one by client credentials
    scope: str = ""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka cluster and how to get in. Certificates and keys are PEM, as text."""

    servers: str  # host:port,host:port
    security: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def hosts(self) -> list[str]:
        return [server.rpartition(":")[0].strip("[]") for server in self.servers.split(",")]


class Record(msgspec.Struct, frozen=True):
    """One record of Kafka; its answer is a 200 once all replicas have it."""

    cluster: Cluster
    topic: str
    key: bytes
    value: bytes
    headers: Mapping[str, str] = {}


class Answer(msgspec.Struct, frozen=True):
    """What came back; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def json(self) -> Any:
        """The body as JSON; None when it is not."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Refused(LilyError):
    """Thrown into a target when an answer is not a success. Let it pass, unless you know better."""

    title = "The other side refused"

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"answered {answer.status}")
        self.answer = answer


class Gone(LilyError):
    """Raised by a target: this endpoint will never work again."""

    title = "The other side is gone"


Sending = Generator[Call | Record, Answer, Any]


class Rate(msgspec.Struct, frozen=True):
    """So many sends a second, and so many at once after a pause."""

    per_second: float
    burst: int = 1


class Target(Protocol):
    """Somewhere to tell things. What is left out of the class attributes is as here."""

    concurrency: ClassVar[int]  # sends at a time; 8
    rate: ClassVar[Rate | None]  # None: as fast as it answers
    threads: ClassVar[bool]  # True: what it returns is kept, and one key is told in order; False

    def address(self) -> str:
        """The URL that it sends to; checked when it is saved and at every call."""

    def send(self, notice: Notice) -> Sending:
        """Yield calls or records and get their answers; return a handle (plain JSON), or None.

        An answer that is not 2xx is thrown as Refused. Raise Reject when it can never work, Retry
        when it may work later, Gone when the endpoint is no more.
        """


@runtime_checkable
class Granted(Protocol):
    """A target whose calls carry tokens that the host gets for it."""

    def grant(self) -> Grant | None:
        """How; None when its options say that it logs in otherwise."""


class Filter(Protocol):
    """Sees every notice before it leaves. `channel` is the name of the connection it goes to."""

    def __call__(self, notice: Notice, channel: str) -> Notice | None:
        """Return it, a changed copy, or None to keep it in. Raise Reject to refuse it."""
