"""The API's socket. It outlives API processes: while one restarts, clients wait in its queue."""

import errno
import socket

from lily.cli.failures import Failure

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Take the port, or say in a sentence who to ask for another."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as cause:
        raise Failure(f"{host} is not an address of this machine; set LILY_HOST.") from cause
    sock = socket.socket(family, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as cause:
        sock.close()
        raise Failure(_reason(host, port, cause)) from cause
    return sock


def adopt(descriptor: int) -> socket.socket:
    """The socket that the supervisor opened for us."""
    return socket.socket(fileno=descriptor)


def port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port


def _reason(host: str, port: int, cause: OSError) -> str:
    if cause.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is taken by another program;"
            f" choose another with --port {port + 10} or LILY_PORT."
        )
    if cause.errno == errno.EACCES:
        return f"Port {port} needs rights that you do not have; choose one above 1023 with --port."
    return f"Cannot listen on {host}:{port} ({cause.strerror}); set LILY_HOST and LILY_PORT."
