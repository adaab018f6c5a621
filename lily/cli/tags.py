"""`lily tags`: what tags mean, who gives them, and what rules suggest."""

from typing import Annotated, Any

import typer

from lily.cli import options, show
from lily.cli.client import segment
from lily.cli.failures import USAGE, Failure
from lily.cli.online import Online, online_command

app = typer.Typer(help="Define, assign, accept and reject tags.", no_args_is_help=True)

TAGS = "/api/v1/tags"
ASSETS = "/api/v1/metadata"
SUGGESTIONS = "/api/v1/suggestions"
DEFINED = ("name", "description", "exclusive_group", "rank", "propagates", "max_depth", "first_use")
GIVEN = ("tag", "value", "origin", "by", "at", "depth", "effective", "why")
SUGGESTED = ("qualified_name", "tag", "by", "reason", "at")

Asset = Annotated[str, typer.Argument(metavar="ASSET", help="Guid, alias or qualified name.")]
Tag = Annotated[str, typer.Argument(metavar="TAG")]
Given = Annotated[list[str] | None, typer.Argument(metavar="[ASSET]...")]
OneTag = Annotated[str | None, typer.Option("--tag", help="Only this tag.")]
By = Annotated[str | None, typer.Option(help="Only what this rule suggests, such as classify.")]
All = Annotated[bool, typer.Option("--all", help="Everything that waits and matches.")]


@app.command("list")
@online_command
def list_(
    online: Online,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List tags and what they do."""
    show.rows(list(online().pages(TAGS, limit)), DEFINED, as_json)


@app.command("show")
@online_command
def show_(
    online: Online,
    asset: Asset,
    as_json: options.AsJson = False,
) -> None:
    """Show who gives an asset its tags, and why they show."""
    found = online().get(f"{ASSETS}/{segment(asset)}/tags")
    if as_json:
        show.document(found)
        return
    show.rows(found["assignments"], GIVEN, as_json)
    for conflict in found["conflicts"]:
        typer.echo(f"In conflict: {', '.join(conflict['tags'])}; {conflict['shown']} shows.")


@app.command()
@online_command
def add(
    online: Online,
    asset: Asset,
    tag: Tag,
    value: Annotated[str, typer.Option()] = "",
    until: Annotated[str | None, typer.Option(help="Ends then, as ISO time with zone.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Tag an asset, in one's own name."""
    body = {"tag": tag, "value": value, "valid_until": until}
    _effective(online().post(f"{ASSETS}/{segment(asset)}/tags", body), as_json)


@app.command()
@online_command
def remove(
    online: Online,
    asset: Asset,
    tag: Tag,
    as_json: options.AsJson = False,
) -> None:
    """Take one's own tag off an asset."""
    client = online()
    _effective(client.delete(f"{ASSETS}/{segment(asset)}/tags/{segment(tag)}"), as_json)


@app.command()
@online_command
def resolve(
    online: Online,
    asset: Asset,
    tag: Tag,
    reason: Annotated[str, typer.Option()] = "",
    as_json: options.AsJson = False,
) -> None:
    """Choose between tags of one group, as a steward."""
    path = f"{ASSETS}/{segment(asset)}/tags/{segment(tag)}/resolve"
    _effective(online().post(path, {"reason": reason}), as_json)


@app.command()
@online_command
def suggestions(
    online: Online,
    tag: OneTag = None,
    by: By = None,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List what rules suggest and nobody has decided on."""
    pages = online().pages(SUGGESTIONS, limit, tag=tag, by=by)
    show.rows(list(pages), SUGGESTED, as_json)


@app.command()
@online_command
def accept(
    online: Online,
    assets: Given = None,
    tag: OneTag = None,
    by: By = None,
    everything: All = False,
    as_json: options.AsJson = False,
) -> None:
    """Accept what rules suggest: for some assets, or for all."""
    done = _decided(online(), "accept", assets, tag, by, everything)
    show.answer({"accepted": done}, as_json, f"Accepted {done}.")


@app.command()
@online_command
def reject(
    online: Online,
    assets: Given = None,
    tag: OneTag = None,
    by: By = None,
    everything: All = False,
    as_json: options.AsJson = False,
) -> None:
    """Reject what rules suggest; it will not be suggested again."""
    done = _decided(online(), "reject", assets, tag, by, everything)
    show.answer({"rejected": done}, as_json, f"Rejected {done}.")


@app.command()
@online_command
def found(
    online: Online,
    words: Annotated[list[str] | None, typer.Argument(help="As in lily search.")] = None,
    add: Annotated[list[str] | None, typer.Option(help="A tag to add, may repeat.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take off.")] = None,
    owner: Annotated[str | None, typer.Option(help="The owner of all of them.")] = None,
    tag: OneTag = None,
    asset_type: Annotated[str | None, typer.Option("--type")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Tag everything that a search finds, or give it to an owner."""
    asked = {"q": " ".join(words or []) or None, "tag": tag, "asset_type": asset_type}
    body: dict[str, Any] = {
        "query": {name: value for name, value in asked.items() if value},
        "add_tags": add or [], "remove_tags": remove or [], "asset_owner": owner,
        "dry_run": dry_run,
    }  # fmt: skip
    client, matched, changed = online(), 0, 0
    while True:
        done = client.post(f"{ASSETS}/search/tags", body)
        matched, changed = matched + done["matched"], changed + done["changed"]
        if done["next"] is None:
            break
        body["after"] = done["next"]
    verb = "would change" if dry_run else "changed"
    answer = {"matched": matched, "changed": changed, "dry_run": dry_run}
    show.answer(answer, as_json, f"Found {matched}, {verb} {changed}.")


def _effective(labelled: dict[str, Any], as_json: bool) -> None:
    tags = labelled["effective"]
    show.answer(labelled, as_json, f"Shown now: {', '.join(tags) or 'nothing'}.")


def _decided(
    client: Any, verb: str, assets: list[str] | None, tag: str | None, by: str | None, every: bool
) -> int:
    if bool(assets) == every:
        raise Failure(f"Name assets to {verb}, or say --all.", USAGE)
    if assets:
        if tag is None:
            raise Failure("Say which --tag.", USAGE)
        items = [{"asset_id": asset, "tag": tag} for asset in assets]
        return int(client.post(f"{SUGGESTIONS}/{verb}", {"items": items})["decided"])
    body: dict[str, Any] = {"filter": {"tag": tag, "by": by}, "limit": 1000}
    total = 0
    while step := int(client.post(f"{SUGGESTIONS}/{verb}", body)["decided"]):
        total += step
    return total
