"""Who may read what in a PostgreSQL, and the way from there to what is wanted. No I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from lily.sdk.enforcers import Entry, Finding, Grantee, Rule, Rules, Wanted

PUBLIC = ""  # the grantee that everybody is
ALL = "*"  # the whole table

RulesOf = Callable[[Grantee], Rules]


class Role(msgspec.Struct, frozen=True):
    name: str
    login: bool
    superuser: bool
    belongs_to: frozenset[str]  # every role it inherits from, at any depth


class Relation(msgspec.Struct, frozen=True):
    """A table, view or partition as it is now."""

    oid: int
    schema: str
    name: str
    kind: str
    owner: str
    columns: tuple[str, ...]
    row_security: bool
    # grantee and column (or ALL) to whether it may be granted on
    grants: Mapping[tuple[str, str], bool]
    policies: frozenset[str] = frozenset()
    withheld: Mapping[tuple[str, str], bool] = {}  # taken when it was made, before anybody looked

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}"


class Steps(msgspec.Struct):
    """What to write into the ledger first, what to change, what to forget afterwards."""

    keep: list[Entry]
    rights: dict[tuple[str, str], bool]  # every right that should be there afterwards
    forget: list[Entry]
    findings: list[Finding]
    drifted: bool
    denied: dict[str, dict[str, str]]  # per column: user to effect
    exempt: dict[str, tuple[str, ...]]
    filters: dict[str, tuple[str, ...]]  # per condition: users to whom it does not apply
    had: dict[tuple[str, str], bool]  # what everybody would have without us


def grantee_of(role: Role) -> Grantee:
    return Grantee(role.name, role.belongs_to | {role.name})


ANYBODY = Grantee("public")


def users_of(grantee: str, roles: Sequence[Role], relation: Relation) -> list[Grantee]:
    """Whom a right of this grantee reaches: itself, and every login that inherits from it."""
    found = [ANYBODY] if grantee == PUBLIC else []
    for role in roles:
        if role.superuser or is_owner(role, relation):
            continue
        if role.name == grantee or (
            role.login and (grantee == PUBLIC or grantee in role.belongs_to)
        ):
            found.append(grantee_of(role))
    return found


def is_owner(role: Role, relation: Relation) -> bool:
    return role.name == relation.owner or relation.owner in role.belongs_to


def beyond_reach(role: Role, relation: Relation) -> str | None:
    """Why nothing can be kept from a login; None if it can."""
    if role.superuser:
        return "is a superuser"
    if is_owner(role, relation):
        return "owns the table, or belongs to its owner"
    if "pg_read_all_data" in role.belongs_to:
        return "belongs to pg_read_all_data"
    return None


def steps(
    relation: Relation, roles: Sequence[Role], wanted: Wanted, ledger: Sequence[Entry], part: str
) -> Steps:
    """From what is there, and what is known of before, to what is wanted."""
    ledger = [entry for entry in ledger if entry.part == part]
    known = [entry for entry in ledger if entry.detail.get("oid") == str(relation.oid)]
    forget = [entry for entry in ledger if entry not in known]  # another table had this name
    lent = {(e.grantee, e.column) for e in known if e.kind == "lent"}
    had, revoked = _had(relation, known, lent)
    forget += revoked
    rules: dict[Grantee, Rules] = {}

    def rules_of(user: Grantee) -> Rules:
        if user not in rules:
            rules[user] = _bounded(relation, wanted.rules(user))
        return rules[user]

    denied_to: dict[str, set[str]] = {}
    reach: dict[str, list[Grantee]] = {}
    for grantee in {grantee for grantee, _ in had}:
        users = reach[grantee] = users_of(grantee, roles, relation)
        denied_to[grantee] = {column for user in users for column in rules_of(user).columns}
    rights, keep, done = _rights(relation, had, denied_to)
    forget += [
        entry for entry in known if entry.kind in ("table", "column") and _key(entry) in done
    ]
    lending = _lent(relation, had, denied_to, reach, rules_of, rights)
    rights |= dict.fromkeys(lending, False)
    keep += [_entry("lent", part, relation, user, column) for user, column in lending - lent]
    forget += [e for e in known if e.kind == "lent" and (e.grantee, e.column) not in lending]
    denied, exempt = _told(relation, roles, rules_of)
    return Steps(
        keep=[msgspec.structs.replace(entry, part=part) for entry in keep],
        rights=rights,
        forget=forget,
        findings=_unreachable(relation, roles, denied),
        drifted=_drifted(relation, known, rights),
        denied=denied,
        exempt=exempt,
        filters=_filters(relation, roles, rules_of),
        had=had,
    )


def _had(
    relation: Relation, known: Iterable[Entry], lent: set[tuple[str, str]]
) -> tuple[dict[tuple[str, str], bool], list[Entry]]:
    """What everybody had before, and has been given since; and what others took away since."""
    current = {key: on for key, on in relation.grants.items() if key not in lent}
    for key, on in relation.withheld.items():
        current[key] = on or current.get(key, False)
    holds = {grantee for grantee, _ in current}
    revoked = [
        e for e in known
        if e.kind == "table" and e.grantee not in holds and int(e.detail.get("left", "0")) > 0
    ]  # fmt: skip
    had = {
        (e.grantee, e.column if e.kind == "column" else ALL): e.detail.get("grantable") == "true"
        for e in known
        if e.kind in ("table", "column") and e not in revoked
    }
    whole = {grantee for grantee, column in had if column == ALL}
    for (grantee, column), on in current.items():
        # Column rights that we left in place of a whole table are no rights of their own.
        if column == ALL or grantee not in whole:
            had[grantee, column] = on or had.get((grantee, column), False)
    return had, revoked


def _rights(
    relation: Relation, had: Mapping[tuple[str, str], bool], denied_to: Mapping[str, set[str]]
) -> tuple[dict[tuple[str, str], bool], list[Entry], set[tuple[str, str]]]:
    """What everybody should have, what to keep of it in the ledger, and what is as it was."""
    rights: dict[tuple[str, str], bool] = {}
    keep: list[Entry] = []
    done: set[tuple[str, str]] = set()
    for (grantee, column), grantable in had.items():
        denied = denied_to[grantee].intersection(relation.columns)
        if column != ALL:
            if column in relation.columns and column not in denied:
                rights[grantee, column] = grantable or rights.get((grantee, column), False)
            # Beside a whole table that is split up, a column's own right could not be told later.
            if column in relation.columns and (
                column in denied or (denied and (grantee, ALL) in had)
            ):
                keep.append(_entry("column", "", relation, grantee, column, grantable=grantable))
            else:
                done.add((grantee, column))
        elif not denied:
            rights[grantee, ALL] = grantable
            done.add((grantee, ALL))
        else:
            left = [name for name in relation.columns if name not in denied]
            for name in left:
                rights[grantee, name] = grantable or rights.get((grantee, name), False)
            keep.append(
                _entry("table", "", relation, grantee, grantable=grantable, left=str(len(left)))
            )
    return rights, keep, done


def _lent(
    relation: Relation,
    had: Mapping[tuple[str, str], bool],
    denied_to: Mapping[str, set[str]],
    reach: Mapping[str, Sequence[Grantee]],
    rules_of: RulesOf,
    rights: Mapping[tuple[str, str], bool],
) -> set[tuple[str, str]]:
    """Who is exempt, but read through a right that had to go: they get one of their own."""
    found: set[tuple[str, str]] = set()
    for grantee, column in had:
        lost = denied_to[grantee].intersection(relation.columns if column == ALL else {column})
        for user in reach[grantee]:
            if user == ANYBODY or user.name == grantee:
                continue
            for name in lost - set(rules_of(user).columns):
                if (user.name, name) not in rights and (user.name, ALL) not in rights:
                    found.add((user.name, name))
    return found


def _told(
    relation: Relation, roles: Sequence[Role], rules_of: RulesOf
) -> tuple[dict[str, dict[str, str]], dict[str, tuple[str, ...]]]:
    """Per protected column: to whom it is denied, and who is exempt."""
    denied: dict[str, dict[str, str]] = {}
    logins = [role for role in roles if role.login and beyond_reach(role, relation) is None]
    for user in [ANYBODY, *map(grantee_of, logins)]:
        for column, rule in rules_of(user).columns.items():
            denied.setdefault(column, {})[user.name] = rule.effect
    exempt = {
        column: tuple(sorted(role.name for role in logins if role.name not in users))
        for column, users in denied.items()
    }
    return denied, exempt


def _unreachable(
    relation: Relation, roles: Sequence[Role], denied: Mapping[str, object]
) -> list[Finding]:
    if not denied:
        return []
    found = []
    for role in roles:
        if role.login and (reason := beyond_reach(role, relation)) is not None:
            found.append(Finding("unenforceable", f"{role.name} {reason}", grantee=role.name))
    return found


def _filters(
    relation: Relation, roles: Sequence[Role], rules_of: RulesOf
) -> dict[str, tuple[str, ...]]:
    """Row conditions, each with the logins that it leaves alone."""
    if relation.kind not in ("r", "p"):
        return {}
    logins = [role for role in roles if role.login and beyond_reach(role, relation) is None]
    users = [ANYBODY, *map(grantee_of, logins)]
    conditions = dict.fromkeys(each for user in users for each in rules_of(user).filters)
    return {
        condition: tuple(
            user.name
            for user in users
            if user != ANYBODY and condition not in rules_of(user).filters
        )
        for condition in conditions
    }


def _bounded(relation: Relation, rules: Rules) -> Rules:
    """Only columns that are there; rows of what has no row security are kept back whole."""
    columns = {name: rule for name, rule in rules.columns.items() if name in relation.columns}
    if rules.whole or (rules.filters and relation.kind not in ("r", "p")):
        columns = {name: columns.get(name, Rule("deny")) for name in relation.columns}
    return Rules(columns, rules.filters)


def _drifted(
    relation: Relation, known: Iterable[Entry], rights: Mapping[tuple[str, str], bool]
) -> bool:
    """Somebody gave again what we had taken."""
    taken = {(e.grantee, e.column or ALL) for e in known if e.kind in ("table", "column")}
    return any(key in taken and key not in rights for key in relation.grants)


def _entry(
    kind: str, part: str, relation: Relation, grantee: str, column: str = "",
    grantable: bool = False, **detail: str,
) -> Entry:  # fmt: skip
    told = {"oid": str(relation.oid), "grantable": "true" if grantable else "false", **detail}
    return Entry(kind=kind, part=part, grantee=grantee, column=column, detail=told)


def _key(entry: Entry) -> tuple[str, str]:
    return entry.grantee, entry.column or ALL
