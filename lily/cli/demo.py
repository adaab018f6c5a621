"""`lily demo`: the stories, step by step, on a Lily and a warehouse that are thrown away after."""

from typing import Annotated

import typer


def demo(
    pause: Annotated[float, typer.Option(min=0, help="Seconds to wait after each step.")] = 0.0,
) -> None:
    """Show what Lily does, on a warehouse and with tools of its own: nothing of yours is touched.

    First a tag that bites in the warehouse, then an incident that goes to Slack, Jira, Teams and
    Freshdesk, which are pretended on this machine."""
    from lily.cli.bench.place import place
    from lily.cli.client import connect
    from lily.cli.demo_incident import IncidentStory
    from lily.cli.demo_protection import ProtectionStory
    from lily.cli.told import Teller
    from lily.store.database import HOME
    from lily.store.raw_warehouse import Warehouse

    with place(None, None, start=True) as where, where.core("lily_app") as core:
        house, teller = Warehouse(core.database.url_of(HOME)), Teller(pause)
        api = connect(where.settings.home, where.url)
        try:
            with house.reader() as reader:
                ProtectionStory(api, house, reader, teller).play()
        finally:
            house.drop()
        IncidentStory(api, teller).play()
