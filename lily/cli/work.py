"""`lily work`: the background loops."""

from lily.cli import configured, options


def work(
    home: options.Home = None,
    database: options.Database = None,
    parent: options.Parent = None,
) -> None:
    """Run the background jobs alone: crawls, notices, cascading deletes, retention, upkeep."""
    from lily.cli import role

    settings = configured.settings(home=home, database=database)
    stop = role.begin(settings, parent)
    role.tell_metrics(settings, parent)
    core = role.connect(settings, "lily_system", stop)
    try:
        from lily.workers.main import run

        run(core, stop)
    finally:
        core.close()
