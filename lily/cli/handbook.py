"""Pages of the reference that follow from the domain: routes, roles, events, problems, plug-ins."""

import inspect
import re
import tempfile
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import msgspec

from lily import errors, plugins, wiring
from lily.api.app import create_app
from lily.api.problems import STATUS
from lily.events.envelope import Envelope
from lily.events.facts import Fact, FactKind
from lily.events.lineage import EDGE_OBSERVATIONS
from lily.events.observations import AssetGone, AssetSeen, Suggestion
from lily.events.signals import SignalSeen
from lily.identity.roles import PLATFORM, ROLES, SCOPES
from lily.settings import load

GENERATED = "Generated from the code by `make docs`."

FACTS: dict[FactKind, str] = {
    "AssetCreated": "An asset exists now; `after` holds it whole.",
    "AssetChanged": "`before` and `after` hold the fields that changed.",
    "AssetDeleted": "Deleted softly; `after.deleted_by` says by whom.",
    "AssetRestored": "Back again.",
    "AssetArchived": "Its retention period is over: out of search, still readable.",
    "AssetPurged": "The row is gone for good; a tombstone stays.",
    "FieldsCreated": "A batch of first, untagged fields under one parent; `after.count`.",
    "TagsChanged": "Effective tags; `before.tags` and `after.tags`.",
    "TagsSuggested": "A hook proposes tags; `after.tags`.",
    "SuggestionAccepted": "A proposed tag counts now; `after.tag`, and `after.by` who proposed it.",
    "SuggestionRejected": "A proposed tag will not be proposed again.",
    "TagResolved": "A steward chose between tags of one group; `after.tag`, `after.among`.",
    "TagDefined": "Somebody defined a tag or a term (`after.kind`); `after` holds it.",
    "TagDefinitionChanged": "What changed of a definition, with its `name` and `kind`.",
    "TagDefinitionDeleted": "A definition that nothing used is gone.",
    "EdgeCreated": "Two assets are joined; `guid` is the downstream end, `after` has the edge.",
    "EdgeChanged": "Process, transformation, masking or origin of an edge.",
    "EdgeDeleted": "No source claims the edge any more, or a person deleted it.",
    "EdgeRestored": "The edge is back.",
    "BlockCreated": "A tag, term or field no longer passes an edge; by a person, or by what the"
    " edge's transformation hides.",
    "BlockDeleted": "It passes the edge again.",
    "PropagationRuleCreated": "Something else travels along lineage; `after` holds the rule.",
    "PropagationRuleChanged": "`before` and `after` hold the rule whole.",
    "PropagationRuleDeleted": "What it brought is taken back.",
    "PropagationLimited": "`after.limit` was reached, and `after.assets` were not.",
    "PropagationFinished": "A large reach is done: `after.changed` of `after.size` assets.",
    "PropagationChecked": "A recomputation of everything found other rows than are stored.",
    "ObservationReplayed": "A dead letter went back into the log.",
    "ObservationDropped": "A dead letter was given up by a person.",
    "LoginSucceeded": "Somebody logged in.",
    "LoginRefused": "Somebody tried to log in.",
    "LoggedOut": "A session was ended by its owner.",
    "AccessRefused": "A known caller asked for what its role does not allow.",
    "PasswordChanged": "By the person or by an admin.",
    "TokenCreated": "A personal token.",
    "TokenRevoked": "A personal token, by its owner or an admin.",
    "UserCreated": "A person of the tenant.",
    "UserChanged": "Name, role or active.",
    "ServiceAccountCreated": "A service account of the tenant.",
    "ServiceAccountChanged": "Role, active or secret.",
    "TenantCreated": "The first fact of every tenant.",
    "TenantChanged": "Suspended or resumed.",
    "KeyRotated": "Access tokens are signed with a new key.",
    "ConnectionCreated": "A plug-in was enabled; secrets are not told.",
    "ConnectionChanged": "Options, order or enabled.",
    "ConnectionDeleted": "A plug-in's use ended, and its secrets are gone.",
    "PolicyCreated": "Who may do what with which data; `after` has the policy.",
    "PolicyChanged": "`before` and `after` have it whole.",
    "PolicyDeleted": "It no longer says anything.",
    "CircleChanged": "The members of a group or role; null where there is none.",
    "ScraperPolicyChanged": "Which columns the sources of a group may speak of.",
    "ProtectionVerified": "An engine keeps from everybody what it should; `after` has the columns.",
    "ProtectionFailed": "An engine could not be brought to keep it; `after.reason` says why.",
    "ProtectionDrifted": "Somebody had undone a protection in the engine; it was done again.",
    "ProtectionReleased": "In this engine everybody has again what they had before.",
    "CrawlFinished": "A crawl came to its end; `after` has its state and counts.",
    "IncidentOpened": "Something is wrong with an asset, or again; `after` says what.",
    "IncidentAcknowledged": "Somebody takes care of it; `after.via` is where they said so.",
    "IncidentChanged": "Severity, owner, title, or a comment.",
    "IncidentResolved": "It is over.",
    "IncidentSuppressed": "It goes on, but nobody should hear of it.",
    "IncidentAttached": "It is known now which asset an incident is about.",
    "ProviderChanged": "Whose word on people the tenant takes; null where there is none.",
    "SubscriptionCreated": "Somebody wants to hear of facts.",
    "SubscriptionChanged": "What, where to, or muted.",
    "SubscriptionDeleted": "Nobody hears of it any more.",
    "NotificationTriggered": "Somebody tells something now; `after` has title and message.",
    "DeliveryFailed": "A notice was given up; `after` has the connection and the reason.",
    "TargetDisabled": "An endpoint is gone for good; change its connection to switch it on again.",
}
USE = {
    "hook": "sees every observation before it is merged: returns it, a changed copy, or nothing",
    "source": "is read on a schedule: yields everything there is; Lily sends what differs",
    "webhook": "is called by another tool: proves the call, and says what it means",
    "target": "tells notices to another tool; the host calls, retries and limits",
    "filter": "sees every notice before it leaves: returns it, a changed copy, or nothing",
    "enforcer": "brings an engine to what tags and policies want, and says whether it holds",
    "gateway": "reads for somebody else: SQL that was rewritten, within limits of time and rows",
    "engine": "asks Lily before it answers: what its names mean",
    "enrichment": "makes of an asset what a rule carries along lineage",
}


def pages() -> dict[str, str]:
    """File name to text."""
    return {
        "api.md": api(),
        "roles.md": roles(),
        "events.md": events(),
        "problems.md": problems(),
        "plugins.md": kinds(),
    }


def described() -> dict[str, Any]:
    """OpenAPI of the application as it is; nothing is connected to."""
    with tempfile.TemporaryDirectory() as home:
        core = wiring.core(load(home=Path(home), database="postgresql://nowhere"), "lily_app")
        return create_app(wiring.services(core)).openapi()


def api() -> str:
    lines = [
        "# API",
        "",
        GENERATED + " The running Lily shows the same with shapes and examples",
        "at `/docs`, and as OpenAPI 3.1 at `/openapi.json`.",
        "",
        "`{id}` of an asset is its guid, an alias, or its percent-encoded qualified name. Lists",
        "answer `{items, next}`; `next` goes into `after`. An ETag is the quoted version, checked",
        "by `If-Match` on edits. `Idempotency-Key` works on every `POST`. Bodies may be gzipped.",
        "What goes wrong is a [problem](problems.md); scopes belong to [roles](roles.md).",
    ]
    for tag, rows in _by_tag(described()["paths"]).items():
        lines += ["", f"## {tag.capitalize()}", "", "| request | scope | |", "|---|---|---|"]
        lines += [f"| `{request}` | {scope} | {text} |" for request, scope, text in sorted(rows)]
    return "\n".join(lines) + "\n"


def _by_tag(paths: dict[str, Any]) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            found.setdefault(tag, []).append(
                (f"{method.upper()} {path}", _scope(operation), _text(operation))
            )
    return dict(sorted(found.items()))


def _scope(operation: dict[str, Any]) -> str:
    if scope := operation.get("x-scope"):
        return f"`{scope}`"
    return "any token" if operation.get("security") else "public"


def _text(operation: dict[str, Any]) -> str:
    return " ".join(str(operation.get("summary", "")).split()).replace("|", "\\|")


def roles() -> str:
    names = [*ROLES, "platform admin"]
    lines = [
        "# Roles and scopes",
        "",
        GENERATED + " Each person and service account has one role in its tenant.",
        "A platform admin is an admin who may also manage tenants.",
        "",
        _row(["scope", *names]),
        _row(["---"] * (len(names) + 1)),
    ]
    for scope in SCOPES:
        held = [scope in granted for granted in ROLES.values()]
        held.append(scope in ROLES["admin"] | PLATFORM)
        lines.append(_row([f"`{scope}`", *("yes" if each else "" for each in held)]))
    return "\n".join(lines) + "\n"


def events() -> str:
    lines = ["# Observations and facts", "", GENERATED, "", "## Observations", ""]
    lines += ["What a source claims. They travel through the log in an envelope.", ""]
    for struct in (AssetSeen, AssetGone, *EDGE_OBSERVATIONS, SignalSeen, Suggestion, Envelope):
        lines += [f"### `{struct.__name__}`", "", inspect.cleandoc(struct.__doc__ or ""), ""]
        lines += [*_fields(struct), ""]
    lines += ["## Facts", "", "What Lily decided and wrote, in the past tense.", ""]
    lines += [*_fields(Fact), "", "| kind | meaning |", "|---|---|"]
    lines += [f"| `{kind}` | {FACTS[kind]} |" for kind in get_args(FactKind)]
    return "\n".join(lines) + "\n"


def _fields(struct: type[msgspec.Struct]) -> list[str]:
    rows = ["| field | type | |", "|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        needed = "required" if field.required else ""
        rows.append(f"| `{field.name}` | {_type(field.type)} | {needed} |")
    return rows


def _type(given: Any) -> str:
    """A type as a reader of JSON would say it."""
    origin, inside = get_origin(given), get_args(given)
    if origin in (Union, types.UnionType):
        names = dict.fromkeys(_type(each) for each in inside if each is not msgspec.UnsetType)
        return " or ".join(names)
    if origin is list:
        return f"list of {_type(inside[0])}"
    if origin is dict:
        return "object"
    if given == FactKind:
        return "see below"
    plain = {"str": "text", "int": "number", "bool": "true or false", "datetime": "time"}
    name: str = "null" if given is type(None) else getattr(given, "__name__", str(given))
    return plain.get(name, name)


def problems() -> str:
    lines = [
        "# Problems",
        "",
        GENERATED + " Every refusal is `application/problem+json` (RFC 9457) with",
        "`type`, `title`, `status`, `detail` and `errors: [{field, message}]`. `type` is",
        "`urn:lily:problem:` and the name in small letters. On the paths of the source documents",
        "(`/ingest-metadata`, `/metadata/{id}`, `/ingest_metadata/`, `/lily/v1/…`) 422 is 400.",
        "503 and 429 come with `Retry-After`.",
        "",
        "| error | status | title | meaning |",
        "|---|---|---|---|",
    ]
    meanings = dict(re.findall(r"[├└]── (\w+)\s+(.+)", errors.__doc__ or ""))
    for error in _errors(errors.LilyError):
        status = next((str(STATUS[kind]) for kind in error.__mro__ if kind in STATUS), "500")
        lines.append(
            f"| `{error.__name__}` | {status} | {error.title} | {meanings[error.__name__]} |"
        )
    return "\n".join(lines) + "\n"


def _errors(root: type[errors.LilyError]) -> Iterator[type[errors.LilyError]]:
    for error in root.__subclasses__():
        if error.__module__ == errors.__name__:
            yield error
            yield from _errors(error)


def kinds() -> str:
    lines = [
        "# Plug-in kinds",
        "",
        GENERATED + " How to write and enable one: [plug-ins](../plugins.md).",
        "",
        "| kind | entry-point group | what it does |",
        "|---|---|---|",
    ]
    lines += [f"| `{kind}` | `lily.{kind}s` | {USE[kind]} |" for kind in plugins.KINDS]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
