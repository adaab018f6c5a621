"""Bearer tokens for targets that log in by OAuth 2.0: got once, renewed by one, kept sealed."""

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import msgspec

from lily.errors import Reject, Unavailable
from lily.sdk.targets import Answer, Call, Grant, Record, Refused
from lily.store import channel_tokens
from lily.store.channel_tokens import Tokens
from lily.wiring import Core
from lily.workers.outlets import Key
from lily.workers.unreached import Unreached
from lily.workers.wire import PATIENCE, Wire

MARGIN = timedelta(seconds=60)  # before its end a token is not used any more
THREADS = 2  # each holds a connection to the database while the other side thinks
CURE = "log in again and give the connection the new refresh token"


class Grants:
    """The tokens of one process. Use it inside one loop."""

    def __init__(self, core: Core, wire: Wire) -> None:
        self._core = core
        self._wire = wire
        self._held: dict[Key, Tokens] = {}
        self._locks: dict[Key, asyncio.Lock] = {}
        self._threads = ThreadPoolExecutor(THREADS, "grants")

    async def call(self, key: Key, cell: str, grant: Grant, wanted: Call | Record) -> Answer:
        """The answer; a token that is not good any more is renewed once."""
        if not isinstance(wanted, Call) or not wanted.bearer:
            return await self._wire.call(wanted)
        token = await self._token(key, cell, grant, "")
        answer = await self._wire.call(_with(wanted, token))
        if answer.status != 401:
            return answer
        token = await self._token(key, cell, grant, token)
        return await self._wire.call(_with(wanted, token))

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    async def _token(self, key: Key, cell: str, grant: Grant, refused: str) -> str:
        """One that is good for now, and is not the one that was refused."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            held = self._held.get(key)
            if held is None or not _good(held, grant, refused, self._core.clock.now()):
                loop = asyncio.get_running_loop()
                given = (key, cell, grant, refused, loop)
                try:
                    held = await loop.run_in_executor(self._threads, self._renewed, *given)
                except Unavailable as cause:
                    raise Unreached(f"no token for now: {cause}", unsure=False) from None
                self._held[key] = held
            return held.access

    # In a thread -------------------------------------------------------------------------------

    def _renewed(
        self,
        key: Key,
        cell: str,
        grant: Grant,
        refused: str,
        loop: asyncio.AbstractEventLoop,
    ) -> Tokens:
        """What another process got meanwhile, else new ones."""
        with self._core.database.cell(cell, [key[0]]) as conn:
            now, seal = self._core.clock.now(), self._core.seal
            known = channel_tokens.locked(conn, key, seal.open, now)
            if known is not None and _good(known, grant, refused, now):
                return known
            if known is not None and known.origin != origin(grant):
                known = None  # somebody has logged in anew
            asked = asyncio.run_coroutine_threadsafe(
                self._wire.call(request(grant, known.refresh if known else "")), loop
            )
            tokens = granted(grant, asked.result(2 * PATIENCE), known, now)
            channel_tokens.save(conn, key, tokens, seal.seal, now)
            return tokens


def request(grant: Grant, refresh: str) -> Call:
    """The call for a token; with the last refresh token that was given, else the first."""
    body = {"client_id": grant.client_id, "client_secret": grant.client_secret}
    if token := refresh or grant.refresh_token:
        body |= {"grant_type": "refresh_token", "refresh_token": token}
    else:
        body |= {"grant_type": "client_credentials"}
    if grant.scope:
        body["scope"] = grant.scope
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return Call("POST", grant.token_url, headers, msgspec.json.encode(body))


def granted(grant: Grant, answer: Answer, before: Tokens | None, now: datetime) -> Tokens:
    """The tokens of an answer; a refusal of ours is for good, of theirs it may heal."""
    said: Any = answer.json()
    if answer.status in (400, 401, 403):
        why = said.get("error") if isinstance(said, dict) else None
        raise Reject(f"no token is given ({why or answer.status}); {CURE}")
    if answer.status != 200:
        raise Refused(answer)
    access = said.get("access_token") if isinstance(said, dict) else None
    if not isinstance(access, str) or not access:
        raise Reject("the token endpoint answered without a token")
    life = said.get("expires_in")
    seconds = float(life) if isinstance(life, int | float) else 3600.0
    kept = before.refresh if before is not None else ""
    refresh = said.get("refresh_token") or kept
    return Tokens(origin(grant), access, now + timedelta(seconds=seconds), str(refresh))


def origin(grant: Grant) -> str:
    """The login that tokens come from."""
    parts = (grant.token_url, grant.client_id, grant.client_secret, grant.refresh_token)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _good(tokens: Tokens, grant: Grant, refused: str, now: datetime) -> bool:
    return (
        tokens.origin == origin(grant)
        and tokens.access != refused
        and now + MARGIN < tokens.until
    )  # fmt: skip


def _with(wanted: Call, token: str) -> Call:
    headers = {**wanted.headers, "Authorization": f"Bearer {token}"}
    return msgspec.structs.replace(wanted, headers=headers)
