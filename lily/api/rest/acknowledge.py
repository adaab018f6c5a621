"""The link in a message that acknowledges an incident: asks first, for scanners follow links."""

from html import escape
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from lily.api.deps import ServicesDep
from lily.notify import acknowledge
from lily.notify.acknowledge import Ticket
from lily.store import connections, incidents
from lily.store.database import Unit
from lily.types import Tenant
from lily.wiring import Core

router = APIRouter(tags=["notices"])

Token = Annotated[str, Query(min_length=1, max_length=2000, pattern=r"^[A-Za-z0-9_-]+$")]
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
STYLE = (
    "body{font:16px system-ui;max-width:32em;margin:4em auto;padding:0 1em}"
    "button{font:inherit;padding:.5em 1em}"
)


@router.get(acknowledge.PATH, summary="Ask whether to acknowledge", response_class=HTMLResponse)
def ask(t: Token, services: ServicesDep) -> HTMLResponse:
    """Changes nothing: who scans links acknowledges nothing."""
    ticket, tenant = _read(services.core, t)
    with services.core.database.unit(tenant) as unit:
        found = incidents.get(unit, ticket.incident)
    title = escape(found.title)
    if found.state != "open":
        return _page(title, f"<p>It is {escape(found.state)} already.</p>")
    form = f'<form method="post" action="?t={quote(t)}"><button>Acknowledge</button></form>'
    return _page(title, form)


@router.post(acknowledge.PATH, summary="Acknowledge by a link", response_class=HTMLResponse)
def confirm(t: Token, services: ServicesDep) -> HTMLResponse:
    ticket, tenant = _read(services.core, t)
    with services.core.database.unit(tenant) as unit:
        found = incidents.get(unit, ticket.incident)
        if found.state == "open":
            by = f"link in {_channel(unit, ticket)}"
            source = str(ticket.connection)
            found = incidents.move(unit, ticket.incident, "acknowledged", by, source)
    return _page(escape(found.title), f"<p>It is {escape(found.state)}.</p>")


def _read(core: Core, token: str) -> tuple[Ticket, Tenant]:
    ticket = acknowledge.read(token, core.seal.open, core.clock.now())
    return ticket, core.database.tenant(ticket.tenant)


def _channel(unit: Unit, ticket: Ticket) -> str:
    return connections.get(unit, ticket.connection).name


def _page(title: str, body: str) -> HTMLResponse:
    text = (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1>{body}"
    )
    return HTMLResponse(text, headers=HEADERS)
