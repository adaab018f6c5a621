"""`lily pipeline`: Spark, from the log into the store."""

from lily.cli import configured, options


def pipeline(
    home: options.Home = None,
    database: options.Database = None,
    parent: options.Parent = None,
) -> None:
    """Run the Spark pipeline alone. A second one is fenced, so one too many does no harm."""
    from lily.cli import role

    settings = configured.settings(home=home, database=database)
    stop = role.begin(settings, parent)
    core = role.connect(settings, "lily_system", stop)
    try:
        from lily.pipeline.main import run

        run(core, stop)
    finally:
        core.close()
