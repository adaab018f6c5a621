"""A web server in a thread, for as long as a test needs it, that writes down every call."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


class Vendor:
    """Subclass it and answer; `calls` are (method, path, headers, body) in order."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[tuple[str, str, dict[str, str], bytes]] = []

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        raise NotImplementedError

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.calls.append((request.method, request.path_qs, headers, body))
        return await self.answer(request, body)


class Scripted(Vendor):
    """Answers with what it was told to, the last one for ever."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes] | int) -> None:
        super().__init__()
        self.script = [a if isinstance(a, tuple) else (a, {}, b"") for a in answers]

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        status, headers, text = self.script[min(len(self.calls), len(self.script)) - 1]
        return web.Response(status=status, headers=headers, body=text)


@contextmanager
def running(vendor: Any, host: str = "127.0.0.1") -> Iterator[Any]:
    """The vendor, served on a free port."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    runners: list[web.AppRunner] = []

    async def start() -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", vendor.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        runners.append(runner)
        port = runner.addresses[0][1]
        vendor.url = f"http://{host}:{port}"
        ready.set()

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runners[0].cleanup())
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield vendor
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
