"""The next statement of an asset that one source alone speaks of: the row it makes.

That is what nearly all changes are. `change.take` folds whatever there is; here a complete
statement simply takes the place of the one before. Both give the same row and facts (tested).
"""

from lily.assets import fresh
from lily.assets.change import Context, Known, Message, changes
from lily.clock import micros
from lily.events.facts import Fact


def suits(known: Known, message: Message) -> bool:
    """Whether nothing but the statement before stands in its way, and it is newer than that."""
    asset = known.asset
    return (
        asset is not None
        and asset.source == message.source
        and not asset.layers
        and asset.statement is None
        and asset.deleted_by is None
        and asset.archived_at is None
        and fresh.suits(message)
        and message.seen.qualified_name == known.qualified_name
        and message.when > (micros(asset.observed_at), asset.log_offset)
    )


def take(known: Known, message: Message, context: Context) -> list[Fact]:
    before = known.asset
    assert before is not None
    after = fresh.created(known.tenant, known.guid, message, context)
    after.version, after.feed_position = before.version, before.feed_position
    after.updated_at, after.cause, after.edited = before.updated_at, before.cause, before.edited
    if not getattr(message.seen, "created_at", None):
        after.created_at = before.created_at
    facts = changes(before, after, message.by, message.cause, context.now, message.traceparent)
    if facts:
        after.version += 1
        after.updated_at, after.cause = context.now, message.cause
        for each in facts:
            each.version = after.version
    known.asset = after
    known.claims = {}  # of before; whoever folds finds this statement in the row
    known.touched = True
    return facts
