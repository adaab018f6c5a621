"""The only reader of the environment, of lily.toml and of flags. Read once, then frozen."""

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

KAFKA = r"kafka://[^/,\s]+(,[^/,\s]+)*(/[\w.-]*)?"


class Settings(BaseSettings):
    """Each field is LILY_<NAME> in the environment and <name> in lily.toml; some have a flag."""

    model_config = SettingsConfigDict(
        env_prefix="LILY_", toml_file="lily.toml", frozen=True, extra="ignore"
    )

    home: Path = Field(
        Path(".lily"), description="Folder for data, logs, checkpoints and credentials."
    )
    database: str = Field(
        "embedded",
        description="`embedded`, or the URL of a PostgreSQL 15 or newer that Lily may own.",
    )
    database_direct: str | None = Field(
        None,
        description="Where LILY_DATABASE is a pooler (PgBouncer in transaction mode): the same"
        " database past it, for migrations, LISTEN, locks and temporary tables.",
    )
    database_replica: str | None = Field(
        None, description="A PostgreSQL that follows the same database, for searches and lineage."
    )
    log: str = Field(
        "postgres",
        description="Where observations are queued: `postgres`, or"
        " `kafka://host:port,host:port/prefix`; the prefix of the topics is `lily` if unsaid.",
    )
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How Kafka is reached."
    )
    kafka_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="How to log in to Kafka, with SASL."
    )
    kafka_username: str = Field("", description="Name to log in to Kafka with.")
    kafka_password: SecretStr = Field(
        SecretStr(""), description="Password to log in to Kafka with."
    )
    kafka_ca: Path | None = Field(
        None, description="PEM file with the certificates that vouch for Kafka's."
    )
    kafka_certificate: Path | None = Field(
        None, description="PEM file with our own certificate, where Kafka asks for one."
    )
    kafka_key: Path | None = Field(None, description="PEM file with the key of that certificate.")
    kafka_partitions: int = Field(
        6, ge=1, le=1000, description="Partitions of the topics that Lily makes."
    )
    kafka_replication: int = Field(
        1, ge=1, le=10, description="Copies of the topics that Lily makes; 3 where it matters."
    )
    jars: Path | None = Field(
        None,
        description="Folder of the jars of `make jars`, which Spark needs for Kafka; looked for"
        " beside Lily if unset.",
    )
    spark: str = Field("local[*]", description="Spark master: `local[*]`, `spark://…`, `k8s://…`.")
    spark_memory: str = Field("1g", description="Heap of the Spark driver.")
    spark_cores: int = Field(
        2, ge=1, description="Cores of a Spark cluster that each streaming stage takes."
    )
    spark_python: str = Field(
        "",
        description="Python of a Spark cluster's executors, if it lacks Lily's dependencies: they"
        " are shipped then. Else the path of the running one, with dependencies installed there.",
    )
    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8585, ge=0, le=65535, description="Port the API listens on.")
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port on which `lily pipeline` and `lily work` tell their metrics when they run"
        " alone; 0 is none.",
    )
    public_url: str | None = Field(
        None, description="URL under which clients reach the API; also the issuer of tokens."
    )
    api_processes: int = Field(1, ge=1, le=64, description="API processes behind the port.")
    secret_key_file: Path | None = Field(
        None,
        description="File with the keys that encrypt connection secrets, newest first, "
        "one base64 key of 32 bytes a line; made under home when absent.",
    )
    admin_password: SecretStr | None = Field(
        None,
        description="Password of the first admin; made up and written to credentials if unset.",
    )
    token: SecretStr | None = Field(
        None, description="Token that the command line sends instead of logging in."
    )
    body_limit: int = Field(5_000_000, ge=1024, description="Largest request body in bytes.")
    bulk_limit: int = Field(
        50_000_000_000, ge=1024, description="Largest file of assets in bytes, unpacked."
    )
    wait_limit: float = Field(
        10.0, gt=0, description="Seconds a POST waits for its own write before answering 202."
    )
    access_token_seconds: int = Field(900, ge=30, description="Life of an access token.")
    refresh_token_seconds: int = Field(30 * 86400, ge=60, description="Life of a refresh token.")
    log_keep_hours: float = Field(
        168, ge=0, description="How long applied observations stay in the log."
    )
    lake: str = Field(
        "file:",
        description="Where the lake's files are: `file:` is a folder under home; or `file:///…`,"
        " `s3://…`; `off` archives nothing.",
    )
    lake_catalog: str = Field(
        "database",
        description="The lake's catalog: `database` is the cell's own; `rest:http://…` an"
        " Iceberg REST catalog, with `?warehouse=name` if it wants one.",
    )
    lake_s3_endpoint: str = Field("", description="S3-compatible storage that is not Amazon's.")
    lake_s3_region: str = Field("", description="Region of the lake's bucket.")
    lake_snapshot_days: float = Field(
        7, gt=0, description="How long the lake can be read as it was."
    )
    lake_observation_days: float = Field(
        365, gt=0, description="How long the lake keeps raw observations."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error."
    )
    log_format: Literal["json", "pretty", "auto"] = Field(
        "auto", description="`json`, `pretty`, or `auto` by terminal."
    )
    egress_allow: list[str] = Field(
        default_factory=list,
        description="CIDRs of private addresses, and folders of sockets, that may be reached.",
    )

    source_folders: list[Path] = Field(
        default_factory=list,
        description="Folders that file-reading crawlers of every tenant may read, beside "
        "`inbox/<tenant>` under home.",
    )

    @field_validator("lake_catalog")
    @classmethod
    def _known_catalog(cls, value: str) -> str:
        if value != "database" and not value.startswith(("rest:http://", "rest:https://")):
            raise ValueError("is `database` or `rest:http://…`")
        return value

    @field_validator("home", "secret_key_file")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @field_validator("log")
    @classmethod
    def _known_log(cls, value: str) -> str:
        if value != "postgres" and not re.fullmatch(KAFKA, value):
            raise ValueError("is neither `postgres` nor `kafka://host:port,…`")
        return value

    @property
    def url(self) -> str:
        return self.public_url or f"http://{self.host}:{self.port}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(**flags: Any) -> Settings:
    """Flags beat the environment, the environment beats lily.toml. None means not given."""
    return Settings(**{name: value for name, value in flags.items() if value is not None})


def java_command() -> str:
    """The Java that Spark will use."""
    chosen = os.environ.get("JAVA_HOME")
    return str(Path(chosen, "bin", "java")) if chosen else "java"


def child_environment(settings: Settings, **more: str) -> dict[str, str]:
    """What a child process needs to see the same settings, whichever way we got them."""
    ours = {
        "LILY_HOME": str(settings.home),
        "LILY_DATABASE": settings.database,
        "LILY_HOST": settings.host,
        "LILY_PORT": str(settings.port),
    }
    if settings.database_direct:
        ours["LILY_DATABASE_DIRECT"] = settings.database_direct
    return {**os.environ, **ours, **more}
