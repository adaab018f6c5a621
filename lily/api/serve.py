"""Runs the API on a socket until told to stop."""

import socket
from threading import Event, Thread

import uvicorn

from lily.api.app import create_app
from lily.store.presence import presence
from lily.wiring import Core, services

KEEP_ALIVE = 75
GRACE = 10


def serve(core: Core, sock: socket.socket, stop: Event) -> None:
    """Serve; once `stop` is set, accept nothing new and finish what is under way."""
    wired = services(core)
    config = uvicorn.Config(
        create_app(wired),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        ws="websockets-sansio",
        ws_max_size=core.settings.body_limit,
        ws_per_message_deflate=False,
    )
    server = uvicorn.Server(config)

    def watch() -> None:
        stop.wait()
        server.should_exit = True
        wired.wakeups.stop()  # whoever waits for facts is answered now

    Thread(target=watch, name="stop", daemon=True).start()
    with presence(core, "serve") as me:
        me.say(port=sock.getsockname()[1])
        server.run(sockets=[sock])
