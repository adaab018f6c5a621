"""`lily plugins`: what is installed."""

from lily.cli import options, show
from lily.cli.online import Online, online_command

COLUMNS = ("kind", "name", "package", "version", "summary", "problem")


@online_command
def plugins(
    online: Online,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List the installed plug-ins. Installed is not enabled: a connection enables one."""
    show.rows(list(online().pages("/api/v1/plugins", limit)), COLUMNS, as_json)
