"""`lily demo`: the stories, step by step, on a Lily and a warehouse that are thrown away after."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from lily.cli.client import Client
    from lily.store.raw_warehouse import Reader, Warehouse

PATIENCE = 60.0
POLL = 0.01
SECRET = "a secret of the demonstration"


def demo(
    pause: Annotated[float, typer.Option(min=0, help="Seconds to wait after each step.")] = 0.0,
) -> None:
    """Show what Lily does on a real warehouse of its own: nothing of yours is touched."""
    from lily.cli.bench.place import place
    from lily.cli.client import connect
    from lily.store.database import HOME
    from lily.store.raw_warehouse import Warehouse

    with place(None, None, start=True) as where, where.core("lily_app") as core:
        house = Warehouse(core.database.url_of(HOME))
        try:
            with house.reader() as reader:
                story = Story(connect(where.settings.home, where.url), house, reader, pause)
                story.protect()
                story.follow()
                story.heal()
                story.let_go()
                story.incident()
        finally:
            house.drop()


class Story:
    """Somebody who tags, somebody who reads, and a warehouse between them."""

    def __init__(
        self, api: "Client", house: "Warehouse", reader: "Reader", pause: float
    ) -> None:  # fmt: skip
        self._api, self._house, self._reader, self._pause = api, house, reader, pause
        self._connection = ""
        self._before = house.rights()

    def protect(self) -> None:
        self._title("A warehouse: people, a view on it, a copy of it, and an analyst who reads")
        options = {
            "url": self._house.url, "server": "warehouse:5432", "capture": True, "mode": "enforce",
        }  # fmt: skip
        made = self._api.post("/api/v1/connections", {
            "name": "warehouse", "plugin": "postgres", "uses": ["source", "enforcer"],
            "options": options,
        })  # fmt: skip
        self._connection = made["id"]
        self._until("capture listens in the warehouse", self._house.is_listened_to)
        self._api.post(f"/api/v1/connections/{made['id']}/run", {})
        self._until("the first crawl", lambda: all(map(self._known, ("people#email", "copied#id"))))
        sql = "INSERT INTO copied SELECT id, email FROM people"
        self._say("lineage of the copy, posted as SQL", sql)
        self._api.post("/api/v1/lineage/sql", {"sql": sql, "connection": made["id"]})
        self._ask("id, email", "people")
        self._title("Somebody tags people.email as PII")
        self._tag("PII")
        self._until("the engine refuses", partial(self._refused, "email", "people"))
        self._until("verified", partial(self._is, "people", "verified"))
        self._ask("email", "people")
        self._ask("id, country", "people")
        for table in ("contacts", "copied"):
            self._until(f"{table} verified too", partial(self._is, table, "verified"))
        self._ask("mail", "contacts")
        self._ask("address", "copied")

    def follow(self) -> None:
        self._title("In a plain SQL session, new copies; nobody tells Lily")
        for statement, column, table in (
            ("CREATE VIEW later AS SELECT upper(email) AS loud FROM people", "loud", "later"),
            ("CREATE TABLE taken AS SELECT * FROM people", "email", "taken"),
        ):
            self._say("SQL", statement)
            self._house.run(statement)
            self._until("found by capture, refused", partial(self._refused, column, table))
            self._ask(column, table)

    def heal(self) -> None:
        self._title("Somebody grants it again, by hand")
        statement = f"GRANT SELECT ON people TO {self._house.analyst}"
        self._say("SQL", statement)
        self._house.run(statement)
        self._until("healed", partial(self._refused, "email", "people"))
        found = self._protection("people") or {}
        for line in found.get("plan", []):
            self._say("done", line)
        for finding in found.get("findings", []):
            self._say(finding["state"], finding["reason"])

    def let_go(self) -> None:
        self._title("The tag is taken off")
        self._tag()
        self._until("everything released", lambda: self._protection("people") is None)
        self._until("readable again", lambda: self._reader.read("email") is not None)
        self._ask("email", "people")
        same = self._house.rights() == self._before
        self._say("rights", "exactly those from before" if same else "NOT those from before")

    def incident(self) -> None:
        """Story 1: a monitor reports, and the incident is on the asset and in the feed."""
        from lily.cli.bench.incident import signed

        self._title("A monitor reports an anomaly of that table, by a signed webhook")
        made = self._api.post("/api/v1/connections", {
            "name": "monitor", "plugin": "montecarlo", "uses": ["webhook"],
            "options": {"secret": SECRET},
        })  # fmt: skip
        event = {"event_details": "Has 42 rows vs. 101 expected", "table_name": "people"}
        payload = {"event_list": [event], "group_id": f"{self._house.database}:public",
                   "incident_id": "demo-1", "url": ""}  # fmt: skip
        call = {"account": {"id": "demo"}, "action": "incident", "payload": payload,
                "type": "open_anomaly_incident", "version": "v0.1"}  # fmt: skip
        path, proof = urlsplit(made["webhook_url"]).path, signed(call, SECRET)
        self._api.call("POST", path, call, headers={"x-mcd-signature": proof})
        self._until("on the asset", lambda: bool(self._asset("people").get("incidents")))
        for each in self._asset("people")["incidents"]:
            self._say(f"{each['state']}, {each.get('severity') or 'no severity'}", each["title"])

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
        self._say(f"analyst: SELECT {what} FROM {table}", answer)

    def _until(self, what: str, ready: Callable[[], bool]) -> None:
        began = time.perf_counter()
        while not ready():
            if time.perf_counter() - began > PATIENCE:
                raise TimeoutError(f"{what}: not within {PATIENCE} s")
            time.sleep(POLL)
        self._say(what, f"after {(time.perf_counter() - began) * 1e3:.0f} ms")

    def _title(self, text: str) -> None:
        typer.echo(f"\n{typer.style(text, bold=True)}")

    def _say(self, what: str, text: str) -> None:
        typer.echo(f"  {what + ':':<48} {text}")
        time.sleep(self._pause)
