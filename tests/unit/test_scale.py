"""`lily scale`: what a backlog asks for."""

import msgspec

from lily.cli.scale import _own
from lily.sizing.replicas import ENOUGH, Goals, Load, Waiting, from_metrics, recommend

GOALS = Goals(pipeline_per_second=4_000, api_per_second=1_000, drain_seconds=300, busy=0.5)


def test_at_rest_two_of_each_so_that_one_may_die() -> None:
    advice = recommend(Load([Waiting("home", "core", 0)]), GOALS)
    assert [(each.role, each.replicas, each.cores) for each in advice] == [
        ("serve", 2, 1),
        ("pipeline", 2, 1),
        ("work", 2, 1),
    ]
    alone = recommend(Load([]), msgspec.structs.replace(GOALS, least=1))
    assert [(each.role, each.replicas) for each in alone] == [("serve", 1), ("work", 1)]


def test_a_backlog_asks_for_cores_of_its_lane_alone() -> None:
    # A core drains 4,000 x 0.5 x 300 = 600,000 in time.
    lanes = [Waiting("home", "core", 10), Waiting("home", "fields", 1_500_000, 700)]
    core, fields = recommend(Load(lanes), GOALS)[1:3]
    assert (core.lane, core.cores) == ("core", 1)
    assert (fields.lane, fields.cores, fields.replicas) == ("fields", 3, 2)
    assert "since 700 s" in fields.why


def test_more_cores_than_a_pipeline_can_use_are_not_recommended() -> None:
    lane = recommend(Load([Waiting("home", "core", 100_000_000)]), GOALS)[1]
    assert lane.cores == ENOUGH
    assert "lily ingest" in lane.why


def test_requests_and_deliveries_ask_for_processes() -> None:
    serve, work = recommend(Load([], 2_400, 450), GOALS)
    assert (serve.replicas, work.replicas) == (5, 5)  # 2,400 / 500 and 450 / 100, rounded up


def test_lanes_are_read_from_metrics_and_from_the_api() -> None:
    text = (
        '# TYPE lily_log_lag gauge\nlily_log_lag{cell="home",lane="core"} 7.0\n'
        'lily_log_lag_seconds{cell="home",lane="core"} 1.5\n'
        'lily_log_lag{cell="a",lane="fields"} 3.0\n'
    )
    assert from_metrics(text) == [Waiting("a", "fields", 3), Waiting("home", "core", 7, 1.5)]
    answer = {"lanes": [{"lane": "core", "all": {"waiting": 7, "oldest_waiting_seconds": None}}]}
    assert _own(answer) == [Waiting("own", "core", 7, 0.0)]
