"""Asks a starting API how far it is, and says so."""

import http.client
import json
import time
from collections.abc import Callable
from threading import Event

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
PATIENCE = 60.0
PAUSE = 0.5


def probe(host: str, port: int, path: str, seconds: float = 2.0) -> tuple[int, str]:
    """Status and reason of a health route; 0 when nobody answers."""
    link = http.client.HTTPConnection(ANYWHERE.get(host, host), port, timeout=seconds)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, _reason(answer.read())
    except (OSError, http.client.HTTPException) as cause:
        return 0, f"the API does not answer ({cause})"
    finally:
        link.close()


def follow(host: str, port: int, began: float, stop: Event, say: Callable[[str], None]) -> None:
    """Until ready: first that it answers, then that it is ready; complains when that takes long."""
    complain, answers = began + PATIENCE, False
    while not stop.is_set():
        status, reason = probe(host, port, "/readyz" if answers else "/healthz")
        now = time.monotonic()
        if status == 200 and answers:
            say(f"Ready in {now - began:.1f} s.")
            return
        if status == 200:
            answers = True
            say(f"The API answers after {now - began:.1f} s; the pipeline is warming up.")
            continue
        if now > complain:
            complain = now + PATIENCE
            say(f"Still not ready after {now - began:.0f} s: {reason or f'status {status}'}")
        stop.wait(PAUSE)


def _reason(body: bytes) -> str:
    """What an answer that is not a success says."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(document, dict):
        return ""
    reasons = document.get("reasons")
    said = " ".join(map(str, reasons)) if isinstance(reasons, list) else document.get("detail")
    return str(said or "")
