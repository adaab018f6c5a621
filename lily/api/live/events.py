"""The feed as server-sent events: `id` is the position, and where to come back to."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Scope

from lily.api.deps import guarded, header_of
from lily.api.live.hub import Cut, Follower, Live
from lily.api.live.wanted import wanted
from lily.api.rest.assets import words
from lily.api.rest.changes import kinds_of
from lily.errors import Invalid
from lily.types import Caller

BEAT = 15.0
MEDIA = "text/event-stream"


class WhenAsked(Route):
    """A route for clients that accept events; others find the one behind it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and MEDIA in Request(scope).headers.get("accept", ""):
            return super().matches(scope)
        return Match.NONE, {}


@guarded("feed:read")
async def stream(request: Request, caller: Caller) -> Response:
    """Without an end, until the client goes, falls behind, or may no longer hear."""
    query = request.query_params
    given = {
        "facts": words([*query.getlist("kinds"), *query.getlist("kind"), *query.getlist("facts")]),
        **{name: query[name] for name in ("asset_id", "under", "change", "entity_type", "tag")
           if name in query},
    }  # fmt: skip
    chosen = wanted(caller, kinds_of(caller), given)
    live: Live = request.app.state.live
    follower = await live.follow(header_of(request) or "", caller, chosen, _start(request))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(live, follower), media_type=MEDIA, headers=headers)


def _start(request: Request) -> int | None:
    """The last event that the client has, else what it asks for; None is now."""
    place = request.headers.get("last-event-id") or request.query_params.get("after", "now")
    if place == "now":
        return None
    if not (place.isascii() and place.isdigit() and len(place) < 19):
        raise Invalid("must be a position, 0, or now", "after")
    return int(place)


async def _events(live: Live, follower: Follower) -> AsyncIterator[str]:
    try:
        yield f"retry: 2000\nid: {follower.position}\n\n"
        while True:
            items = await follower.take(BEAT)
            for item in items:
                yield f"id: {item.position}\nevent: update\ndata: {item.text}\n\n"
                follower.position = max(follower.position, item.position)
            if not items:
                yield f": {follower.position}\n\n"
    except Cut as cut:
        yield f'event: {cut.kind}\ndata: {{"position": {follower.position}}}\n\n'
    finally:
        live.unfollow(follower)


ROUTES = [WhenAsked("/api/v1/changes", stream, methods=["GET"])]
