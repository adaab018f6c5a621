"""The command line against a small API on loopback: answers, errors and exit codes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lily.cli import home
from lily.cli.app import run
from lily.cli.client import sentence

Answer = tuple[int, Any]


class Api:
    """Answers by method and path; remembers what it was asked."""

    def __init__(self) -> None:
        self.routes: dict[str, Answer | Callable[[Any], Answer]] = {
            "POST /api/v1/auth/login": (200, {"access_token": "tok"})
        }
        self.seen: list[tuple[str, Any, dict[str, str]]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(raw) if raw else None
                api.seen.append((f"{self.command} {self.path}", body, dict(self.headers)))
                key = f"{self.command} {self.path.partition('?')[0]}"
                found = api.routes.get(key, (404, {"title": "Not found", "detail": "No such."}))
                status, content = found(body) if callable(found) else found
                text = b"" if content is None else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Lily:
    """Runs commands in a home with credentials."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = folder
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([*arguments, "--home", str(self.home)])
        out, err = self._capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


@pytest.fixture
def lily(
    api: Api,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lily:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LILY_TOKEN", raising=False)
    login = {"url": api.url, "tenant": "default", "username": "admin", "password": "p"}
    home.write_credentials(tmp_path, login)
    return Lily(tmp_path, capsys)


def test_it_logs_in_with_the_credentials_and_sends_the_token(api: Api, lily: Lily) -> None:
    api.routes["GET /api/v1/metadata/g1"] = (200, {"asset_id": "g1", "tags": ["PII"]})
    code, out, _ = lily("asset", "get", "g1")
    assert code == 0
    assert "PII" in out
    assert api.seen[0][1] == {"username": "admin", "password": "p", "tenant": "default"}
    assert api.seen[1][2]["Authorization"] == "Bearer tok"


def test_a_given_token_is_used_without_a_login(
    api: Api, lily: Lily, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.routes["GET /api/v1/metadata/g1"] = (200, {})
    monkeypatch.setenv("LILY_TOKEN", "from-environment")
    lily("asset", "get", "g1")
    lily("asset", "get", "g1", "--token", "from-flag")
    sent = [headers["Authorization"] for _, _, headers in api.seen]
    assert sent == ["Bearer from-environment", "Bearer from-flag"]


def test_a_qualified_name_stays_one_segment_of_the_path(api: Api, lily: Lily) -> None:
    lily("asset", "get", "postgres://h:1/a.b.c#d")
    assert api.seen[-1][0] == "GET /api/v1/metadata/postgres%3A%2F%2Fh%3A1%2Fa.b.c%23d"


def test_json_is_the_answer_itself(api: Api, lily: Lily) -> None:
    asset = {"asset_id": "g1", "metadata": {"a": [1]}}
    api.routes["GET /api/v1/metadata/g1"] = (200, asset)
    _, out, _ = lily("asset", "get", "g1", "--json")
    assert json.loads(out) == asset


@pytest.mark.parametrize(
    ("status", "code"), [(401, 4), (403, 4), (404, 5), (422, 2), (400, 2), (500, 1), (503, 1)]
)
def test_a_refusal_is_one_sentence_and_an_exit_code(
    api: Api, lily: Lily, status: int, code: int
) -> None:
    problem = {"title": "T", "detail": "It did not work.", "status": status}
    api.routes["GET /api/v1/metadata/g1"] = (status, problem)
    got, out, err = lily("asset", "get", "g1")
    assert (got, out) == (code, "")
    assert "It did not work." in err
    assert len(err.splitlines()) == 1


def test_wrong_fields_are_named() -> None:
    problem = {"detail": "Invalid.", "errors": [{"field": "asset_name", "message": "is empty"}]}
    assert sentence(422, problem) == "Invalid: asset_name: is empty."


def test_an_api_that_is_not_there_is_code_3_and_the_cure(api: Api, lily: Lily) -> None:
    code, _, err = lily("asset", "get", "g1", "--url", "http://127.0.0.1:1")
    assert code == 3
    assert "lily up" in err


def test_what_is_not_a_url_is_code_2(api: Api, lily: Lily) -> None:
    code, _, err = lily("asset", "get", "g1", "--url", "ftp://x")
    assert code == 2
    assert "http://" in err


def test_no_credentials_say_where_to_get_them(
    api: Api, lily: Lily, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lily.home = tmp_path_factory.mktemp("empty")
    code, _, err = lily("search", "people")
    assert code == 4
    assert "lily up" in err


def test_a_wrong_option_is_code_2(lily: Lily) -> None:
    assert lily("search", "--nonsense")[0] == 2
    assert lily("asset", "put", "{broken")[0] == 2
    assert lily("search", "--metadata", "novalue")[0] == 2


def test_search_follows_pages_up_to_the_limit(api: Api, lily: Lily) -> None:
    pages = iter(
        [
            (200, {"items": [{"asset_name": f"a{n}"} for n in range(100)], "next": "x"}),
            (200, {"items": [{"asset_name": f"b{n}"} for n in range(100)], "next": "y"}),
        ]
    )
    api.routes["GET /api/v1/metadata/search"] = lambda _: next(pages)
    _, out, _ = lily("search", "a b", "--tag", "PII", "--limit", "150", "--json")
    assert len(json.loads(out)) == 150
    assert "q=a+b&tag=PII&limit=100" in api.seen[1][0]
    assert "after=x" in api.seen[2][0]


def test_watch_shows_changes_and_renews_its_token(api: Api, lily: Lily) -> None:
    facts = [{"position": n, "kind": "AssetCreated", "at": ""} for n in (1, 2)]
    answers: Iterator[Answer] = iter(
        [
            (200, {"items": facts[:1], "next": 1}),
            (401, {"detail": "Expired."}),
            (200, {"items": [], "next": 1}),
            (200, {"items": facts[1:], "next": 2}),
        ]
    )
    api.routes["GET /api/v1/changes"] = lambda _: next(answers)
    code, out, _ = lily("watch", "--after", "0", "--count", "2", "--json")
    assert code == 0
    assert [json.loads(line)["position"] for line in out.splitlines()] == [1, 2]
    asked = [path for path, _, _ in api.seen if "changes" in path]
    assert "after=0" in asked[0] and "after=1" in asked[-1]


def test_watch_gives_up_when_a_renewed_token_is_refused_too(api: Api, lily: Lily) -> None:
    api.routes["GET /api/v1/changes"] = (401, {"detail": "Expired."})
    assert lily("watch")[0] == 4


def test_history_tells_what_changed(api: Api, lily: Lily) -> None:
    change = {"field": "asset_owner", "before": None, "after": "ann"}
    version = {"version": 2, "at": "t", "kind": "AssetChanged", "by": "x", "changes": [change]}
    api.routes["GET /api/v1/metadata/g1/history"] = (200, {"items": [version], "next": None})
    _, out, _ = lily("asset", "history", "g1")
    assert "∅ → ann" in out


def outcome(body: Any) -> Answer:
    bad = {"status": 422, "detail": "asset_name: is empty"}
    items = [bad if not item.get("asset_name") else {"status": 201} for item in body]
    return (207 if bad in items else 200), {"items": items}


def test_ingest_sends_lists_and_names_the_lines_that_were_refused(api: Api, lily: Lily) -> None:
    api.routes["POST /api/v1/metadata"] = outcome
    lines = [json.dumps({"asset_name": f"a{n}"}) for n in range(2500)]
    lines[1200], lines[1300] = '{"asset_name": ""}', "{broken"
    (lily.home / "assets.ndjson").write_text("\n".join(lines))
    code, out, _ = lily("ingest", str(lily.home / "assets.ndjson"), "--json")
    told = json.loads(out)
    assert code == 1
    assert (told["read"], told["accepted"], told["failed"]) == (2500, 2498, 2)
    assert sorted(error["line"] for error in told["errors"]) == [1201, 1301]
    assert [len(body) for path, body, _ in api.seen if path.endswith("metadata")] == [
        1000,
        1000,
        499,
    ]


def test_ingest_halves_a_list_that_was_refused_as_a_whole(api: Api, lily: Lily) -> None:
    def strict(body: Any) -> Answer:
        bad = any(item["asset_name"] == "bad" for item in body)
        return (422, {"detail": "Bad."}) if bad else (200, {"items": [{"status": 201}] * len(body)})

    api.routes["POST /api/v1/metadata"] = strict
    names = ["a", "b", "bad", "c", "d"]
    (lily.home / "x.json").write_text(json.dumps([{"asset_name": name} for name in names]))
    code, out, _ = lily("ingest", str(lily.home / "x.json"))
    assert code == 1
    assert "4 of 5 accepted." in out


def test_ingest_reads_the_reason_of_each_item_of_a_refused_list(api: Api, lily: Lily) -> None:
    errors = [{"field": f"[{n}].asset_name", "message": f"wrong {n}"} for n in range(2)]
    api.routes["POST /api/v1/metadata"] = (422, {"detail": "Bad.", "errors": errors})
    (lily.home / "x.ndjson").write_text('{"a": 1}\n{"a": 2}\n')
    _, out, _ = lily("ingest", str(lily.home / "x.ndjson"), "--json")
    assert [(e["line"], e["reason"]) for e in json.loads(out)["errors"]] == [
        (1, "asset_name: wrong 0"),
        (2, "asset_name: wrong 1"),
    ]
    assert len(api.seen) == 2


def test_ingest_of_a_missing_file_is_one_sentence(lily: Lily) -> None:
    code, _, err = lily("ingest", "nowhere.json")
    assert code == 2
    assert "nowhere.json cannot be read" in err


def test_dead_letters_are_replayed_until_none_is_left(api: Api, lily: Lily) -> None:
    counts = {"replayed": 2, "skipped": 0, "unreadable": 1}
    answers: Iterator[Answer] = iter(
        [(200, {**counts, "more": True}), (200, {**counts, "more": False})]
    )
    api.routes["POST /api/v1/dead-letters/replay"] = lambda _: next(answers)
    code, out, _ = lily("dead", "replay", "--all", "--json")
    assert code == 0
    assert json.loads(out) == {"replayed": 4, "skipped": 0, "unreadable": 2}
    assert api.seen[-1][1] == {"filter": {"state": "parked"}}
    assert lily("dead", "replay")[0] == 2


def test_help_is_quick_because_heavy_imports_wait() -> None:
    code = "import sys; from lily.cli import app; app.build(); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic_settings", "fastapi", "uvicorn", "pyspark", "psycopg", "rich.table"}
    assert not heavy & set(done.stdout.split())
