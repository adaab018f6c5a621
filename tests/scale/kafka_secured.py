"""What a broker and its clients need for TLS and a password."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from lily.cli.broker import Broker, CannotFetch, free_port

USER, PASSWORD = "lily", 'quo"ted secret'
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def certificate(folder: Path) -> Path:
    """One of 127.0.0.1 that vouches for itself; beside it `broker.pem`, with its key."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)  # noqa: TID251
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "ca.pem").write_bytes(public)
    (folder / "broker.pem").write_bytes(private + public)
    return folder / "ca.pem"


@contextmanager
def secured_broker(folder: Path, ca: Path, missing: Callable[[str], NoReturn]) -> Iterator[Broker]:
    """One that wants TLS and a password."""
    port = free_port()
    try:
        made = Broker(folder, port, broker_options(port, ca))
    except CannotFetch as cause:
        missing(str(cause))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def broker_options(port: int, ca: Path) -> dict[str, str]:
    controller = free_port()
    own = f"SASL_SSL://127.0.0.1:{port}"
    password = PASSWORD.replace('"', '\\\\"')  # once for the file, once for the login module
    return {
        "listeners": f"{own},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": own,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{LOGIN} username="{USER}" password="{password}" user_{USER}="{password}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(ca.with_name("broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }


def client_settings(ca: Path) -> dict[str, Any]:
    """Settings of a Lily that gets in."""
    return {
        "kafka_security": "SASL_SSL",
        "kafka_mechanism": "PLAIN",
        "kafka_username": USER,
        "kafka_password": PASSWORD,
        "kafka_ca": ca,
    }
