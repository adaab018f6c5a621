"""`lily doctor`: what is wrong, and what to do about it."""

from dataclasses import asdict

import typer

from lily.cli import configured, options, show
from lily.cli.failures import Failure

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def doctor(
    home: options.Home = None,
    host: options.Host = None,
    port: options.Port = None,
    database: options.Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Check Java, Python, folder, port, database and pipeline; each failure comes with its cure."""
    from lily.cli import checks

    settings = configured.settings(home=home, host=host, port=port, database=database)
    found = []
    for finding in checks.findings(settings):
        found.append(finding)
        if not as_json:
            mark, colour = MARKS[finding.state]
            typer.echo(f"{typer.style(mark, fg=colour)} {finding.check:<12} {finding.sentence}")
            if finding.cure:
                typer.echo(f"  {'':<12} {finding.cure}")
    bad = sum(finding.state == "failed" for finding in found)
    if as_json:
        show.document({"ok": not bad, "findings": [asdict(finding) for finding in found]})
    if bad:
        raise Failure(f"{bad} checks failed; the cure stands below each of them.")
