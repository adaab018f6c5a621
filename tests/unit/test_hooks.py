"""Whatever a hook does, the lane goes on and the reason is kept."""

from pathlib import Path
from typing import Any

import pytest

from lily import plugins
from lily.assets.hooks import HookFailure, NamedHook, run_hooks
from lily.events.observations import AssetSeen
from tests.packages import install_test_hooks

SECRET = "swordfish-7"


@pytest.fixture(autouse=True)
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_test_hooks(tmp_path, monkeypatch)


def named(plugin: str, name: str = "ours", **options: Any) -> NamedHook:
    public, secrets = plugins.split(plugins.check("hook", plugin, options))
    call = plugins.build("hook", plugin, plugins.join(public, secrets))
    return NamedHook(name, plugin, call, plugins.hidden(secrets))


def failure(*hooks: NamedHook) -> HookFailure:
    answer = run_hooks(hooks, AssetSeen(qualified_name="a"))
    assert isinstance(answer, HookFailure)
    return answer


def test_hooks_run_in_the_order_given() -> None:
    hooks = [named("test-stamp", note="1"), named("test-stamp", note="2")]
    answer = run_hooks(hooks, AssetSeen(qualified_name="a"))
    assert isinstance(answer, AssetSeen) and answer.description == "12"


def test_without_hooks_nothing_happens() -> None:
    seen = AssetSeen(qualified_name="a")
    assert run_hooks([], seen) is seen


def test_a_hook_may_drop() -> None:
    assert run_hooks([named("test-drop")], AssetSeen(qualified_name="a")) is None


def test_a_refusal_is_the_reason_as_it_is() -> None:
    assert failure(named("test-refuse")) == HookFailure("ours", "not before Monday")


def test_an_accident_is_told_in_one_line_without_secrets() -> None:
    reason = failure(named("test-leak", password=SECRET)).reason
    assert reason == "RuntimeError: login with ******** failed badly"


def test_a_long_reason_is_cut() -> None:
    assert len(failure(named("test-leak", password="ab " * 2000)).reason) <= 500


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        ("test-stray", "it returned a dict, not an observation"),
        ("test-odd", "TypeError: Encoding objects of type object is unsupported"),
        ("test-scribble", "TypeError: Encoding objects of type object is unsupported"),
        ("test-mover", "it made 'a' into 'a#x'"),
        ("test-nameless", "its answer: qualified_name must not be empty"),
    ],
)
def test_an_answer_that_cannot_be_stored_is_a_failure_of_that_hook(
    plugin: str, reason: str
) -> None:
    found = failure(named(plugin))
    assert found.plugin == "ours"
    assert found.reason.startswith(reason)


def test_the_hook_that_failed_is_named_not_the_last() -> None:
    hooks = [named("test-stamp", "a", note="x"), named("test-odd", "b"), named("test-stamp", "c")]
    assert failure(*hooks).plugin == "b"
