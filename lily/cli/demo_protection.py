"""A tag bites: in a real warehouse, on what was made of the column, and until it is taken off."""

from functools import partial
from typing import TYPE_CHECKING, Any

from lily.cli.told import Teller

if TYPE_CHECKING:
    from lily.cli.client import Client
    from lily.store.raw_warehouse import Reader, Warehouse


class ProtectionStory:
    """Somebody who tags, somebody who reads, and a warehouse between them."""

    def __init__(
        self, api: "Client", house: "Warehouse", reader: "Reader", teller: Teller
    ) -> None:  # fmt: skip
        self._api, self._house, self._reader, self._teller = api, house, reader, teller
        self._connection = ""
        self._before = house.rights()

    def play(self) -> None:
        self.protect()
        self.follow()
        self.heal()
        self.let_go()

    def protect(self) -> None:
        self._teller.title(
            "A warehouse: people, a view on it, a copy of it, and an analyst who reads"
        )
        options = {
            "url": self._house.url, "server": "warehouse:5432", "capture": True, "mode": "enforce",
        }  # fmt: skip
        made = self._api.post("/api/v1/connections", {
            "name": "warehouse", "plugin": "postgres", "uses": ["source", "enforcer"],
            "options": options,
        })  # fmt: skip
        self._connection = made["id"]
        self._teller.until("capture listens in the warehouse", self._house.is_listened_to)
        self._api.post(f"/api/v1/connections/{made['id']}/run", {})
        self._teller.until(
            "the first crawl", lambda: all(map(self._known, ("people#email", "copied#id")))
        )
        sql = "INSERT INTO copied SELECT id, email FROM people"
        self._teller.say("lineage of the copy, posted as SQL", sql)
        self._api.post("/api/v1/lineage/sql", {"sql": sql, "connection": made["id"]})
        self._ask("id, email", "people")
        self._teller.title("Somebody tags people.email as PII")
        self._tag("PII")
        self._teller.until("the engine refuses", partial(self._refused, "email", "people"))
        self._teller.until("verified", partial(self._is, "people", "verified"))
        self._ask("email", "people")
        self._ask("id, country", "people")
        for table in ("contacts", "copied"):
            self._teller.until(f"{table} verified too", partial(self._is, table, "verified"))
        self._ask("mail", "contacts")
        self._ask("address", "copied")

    def follow(self) -> None:
        self._teller.title("In a plain SQL session, new copies; nobody tells Lily")
        for statement, column, table in (
            ("CREATE VIEW later AS SELECT upper(email) AS loud FROM people", "loud", "later"),
            ("CREATE TABLE taken AS SELECT * FROM people", "email", "taken"),
        ):
            self._teller.say("SQL", statement)
            self._house.run(statement)
            self._teller.until("found by capture, refused", partial(self._refused, column, table))
            self._ask(column, table)

    def heal(self) -> None:
        self._teller.title("Somebody grants it again, by hand")
        statement = f"GRANT SELECT ON people TO {self._house.analyst}"
        self._teller.say("SQL", statement)
        self._house.run(statement)
        self._teller.until("healed", partial(self._refused, "email", "people"))
        found = self._protection("people") or {}
        for line in found.get("plan", []):
            self._teller.say("done", line)
        for finding in found.get("findings", []):
            self._teller.say(finding["state"], finding["reason"])

    def let_go(self) -> None:
        self._teller.title("The tag is taken off")
        self._tag()
        self._teller.until("everything released", lambda: self._protection("people") is None)
        self._teller.until("readable again", lambda: self._reader.read("email") is not None)
        self._ask("email", "people")
        same = self._house.rights() == self._before
        self._teller.say("rights", "exactly those from before" if same else "NOT those from before")

    def _tag(self, *tags: str) -> None:
        guid = self._asset("people#email")["guid"]
        self._api.patch(f"/api/v1/metadata/{guid}", {"tags": list(tags)})

    def _asset(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._api.get(
            "/api/v1/metadata/by-name", qualified_name=self._house.name(name)
        )
        return found

    def _known(self, name: str) -> bool:
        query = {"qualified_name": self._house.name(name)}
        status, _ = self._api.exchange("GET", "/api/v1/metadata/by-name", query=query)
        return bool(status == 200)

    def _protection(self, table: str) -> dict[str, Any] | None:
        items = self._api.get("/api/v1/protections", connection=self._connection)["items"]
        return next((each for each in items if each["object"] == self._house.name(table)), None)

    def _is(self, table: str, state: str) -> bool:
        found = self._protection(table)
        return found is not None and found["state"] == state

    def _refused(self, what: str, table: str) -> bool:
        return self._reader.read(what, table) is None

    def _ask(self, what: str, table: str) -> None:
        rows = self._reader.read(what, table)
        answer = "permission denied" if rows is None else ", ".join(map(str, rows))
        self._teller.say(f"analyst: SELECT {what} FROM {table}", answer)
