"""`lily plugins`: what is installed."""

from lily.cli import options, show

GROUPS = ("hook",)


def plugins(as_json: options.AsJson = False) -> None:
    """List the installed plug-ins. Installed is not enabled: a connection enables one."""
    from importlib.metadata import entry_points

    items = [
        {
            "kind": kind,
            "name": found.name,
            "package": f"{found.dist.name} {found.dist.version}" if found.dist else "",
            "class": found.value,
        }
        for kind in GROUPS
        for found in sorted(entry_points(group=f"lily.{kind}s"), key=lambda found: found.name)
    ]
    show.rows(items, ("kind", "name", "package", "class"), as_json)
