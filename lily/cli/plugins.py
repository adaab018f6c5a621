"""`lily plugins`: what is installed."""

from lily.cli import options, show
from lily.cli.client import connect

COLUMNS = ("kind", "name", "package", "version", "summary", "problem")


def plugins(
    limit: options.Limit = 100,
    home: options.Home = None,
    url: options.Url = None,
    token: options.Token = None,
    as_json: options.AsJson = False,
) -> None:
    """List the installed plug-ins. Installed is not enabled: a connection enables one."""
    show.rows(list(connect(home, url, token).pages("/api/v1/plugins", limit)), COLUMNS, as_json)
