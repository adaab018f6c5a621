"""Target `kafka`: a CloudEvent into a topic, those of one asset in order."""

from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from lily.connectors.events import CONTENT, encoded
from lily.sdk import Cluster, Notice, Rate, Record, Sending

MOST = 900_000  # bytes; brokers take a million unless they are told otherwise
PEM = Field("", max_length=100_000, description="PEM, as text.")


class Kafka:
    """Writes a CloudEvent, acknowledged by all replicas; the same `webhook-id` on every try."""

    concurrency: ClassVar[int] = 64
    rate: ClassVar[Rate | None] = None
    threads: ClassVar[bool] = False

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        servers: str = Field(max_length=2000, description="host:port, host:port")
        topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="It must exist.")
        security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
        mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
        username: str = Field("", max_length=500)
        password: SecretStr | None = None
        ca: str = PEM
        certificate: str = PEM
        key: SecretStr | None = Field(None, description="Of the certificate, PEM, unencrypted.")
        source: str = Field("/lily", max_length=200, description="`source` of the events.")

        @field_validator("servers")
        @classmethod
        def _addresses(cls, value: str) -> str:
            for server in value.split(","):
                host, _, port = server.strip().rpartition(":")
                if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
                    raise ValueError("is a list like host:9092,host:9092")
                if not all(c.isalnum() or c in ".-:[]" for c in host):
                    raise ValueError("is a list like host:9092,host:9092")
            return value

        @model_validator(mode="after")
        def _whole(self) -> Self:
            if self.security.startswith("SASL") != (self.mechanism is not None):
                raise ValueError("mechanism goes with SASL_PLAINTEXT or SASL_SSL, and they with it")
            if self.mechanism is not None and (not self.username or self.password is None):
                raise ValueError("a mechanism needs username and password")
            if bool(self.certificate) != (self.key is not None):
                raise ValueError("a certificate needs its key, and a key its certificate")
            return self

    def __init__(self, options: Options) -> None:
        self._topic = options.topic
        self._source = options.source
        self._cluster = Cluster(
            servers=",".join(each.strip() for each in options.servers.split(",")),
            security=options.security,
            mechanism=options.mechanism or "",
            username=options.username,
            password=options.password.get_secret_value() if options.password else "",
            ca=options.ca,
            certificate=options.certificate,
            key=options.key.get_secret_value() if options.key else "",
        )

    def address(self) -> str:
        return f"kafka://{self._cluster.servers}/{self._topic}"

    def hosts(self) -> list[str]:
        return self._cluster.hosts()

    def send(self, notice: Notice) -> Sending:
        if notice.echo:
            return None
        key = notice.asset.guid if notice.asset is not None else notice.key
        headers = {"content-type": CONTENT, "webhook-id": notice.id}
        if notice.traceparent:
            headers["traceparent"] = notice.traceparent
        value = encoded(notice, self._source, MOST)
        yield Record(self._cluster, self._topic, key.encode(), value, headers)
        return None
