"""What containers hand down to assets that are read by id, for many requests at once."""

from collections.abc import Iterable

import psycopg

from lily.assets.model import Asset
from lily.store.definitions import BUILT_IN, SETTINGS, TAGS, TERMS, bound
from lily.store.inheritance import CONTAINERS, containers_of, enrich
from lily.tags.definitions import Book, Definition

Books = dict[int, Book]  # by tenant; read again when the revision has changed


async def follow_containers(
    conn: psycopg.AsyncConnection, tenant: int, assets: Iterable[Asset], books: Books
) -> None:
    """A field is deleted with its direct parent, and everything has its containers' tags."""
    inside = [asset for asset in assets if asset.parent is not None]
    if not inside:
        return
    values = {"tenant": tenant, "guids": list({asset.parent for asset in inside})}
    found = await conn.execute(CONTAINERS, values, prepare=True)
    containers = containers_of(await found.fetchall())
    for asset in inside:
        if asset.lane == "fields" and not asset.deleted_by and asset.parent is not None:
            parent = containers.get(asset.parent)
            if parent is not None and parent.deleted_by:
                asset.deleted_by = f"parent:{asset.parent}"
    if any(each.tags or each.business_terms for each in containers.values()):
        book = await _book(conn, tenant, books)
        for asset in inside:
            enrich(asset, containers, book)


async def _book(conn: psycopg.AsyncConnection, tenant: int, books: Books) -> Book:
    settings = await (await conn.execute(SETTINGS, [[tenant]], prepare=True)).fetchone()
    revision, *unknown = settings[1:] if settings else (0, "create", "create")
    book = books.get(tenant)
    if book is None or book.revision != revision:
        rows = await (await conn.execute(TAGS, [[tenant]])).fetchall()
        tags = [Definition(*row[1:]) for row in rows]
        if not tags:
            tags = [Definition(*row) for row in await (await conn.execute(BUILT_IN)).fetchall()]
        terms = await (await conn.execute(TERMS, [[tenant]])).fetchall()
        travels = {name: propagates for _, name, propagates in terms}
        book = books[tenant] = bound(revision, tags, travels, unknown)
    return book
