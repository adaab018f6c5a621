"""The real server on a loopback port, in a thread, for as long as a test needs it."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import httpx
import uvicorn
from starlette.types import ASGIApp


@contextmanager
def serving(app: ASGIApp) -> Iterator[httpx.Client]:
    """A client of the application; its lifespan runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", ws="websockets-sansio"
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="api")
    thread.start()
    try:
        _wait(server, thread)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=90, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def _wait(server: uvicorn.Server, thread: Thread) -> None:
    end = time.monotonic() + 20
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise RuntimeError("the API did not start")
        time.sleep(0.01)
