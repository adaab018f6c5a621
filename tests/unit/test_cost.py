"""`lily cost` against arithmetic by hand; every figure says where it comes from."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lily.cli.app import build
from lily.errors import Invalid
from lily.sizing import tables
from lily.sizing.cost import Estate, bill, cores

ROOT = Path(__file__).parents[2]
RATES = tables.rates()
PRICES = tables.prices()
BILLION = Estate(assets=1e9, changes_per_day=1e7)


def test_a_billion_assets_cost_what_a_pencil_says() -> None:
    """The same sums as in docs/cost.md, written out with figures instead of names."""
    cost = {(line.part, line.what): line.cost for line in bill(BILLION, RATES, PRICES).lines}

    # 10 million changes a day are 116 a second, 347 at the peak, planned as 579.
    peak = 1e7 / 86_400 * 3 / 0.6
    assert round(peak) == 579
    # API: 579 x 44 µs + 10 x 3 / 0.6 x 144 µs = 0.03 cores, so one; two with a spare.
    assert cost["compute", "serve, 2 x"] == pytest.approx(2 * 730 * 0.045)
    # Pipeline: 579 x 211 µs = 0.12 cores.
    assert cost["compute", "pipeline, 2 x"] == pytest.approx(2 * 730 * 0.045)
    # Store: a quarter of 1,296 GB in memory, 4 GB a core: 81 cores, twice.
    assert cost["compute", "store, 2 x"] == pytest.approx(81 * 2 * 730 * 0.045)
    # 1,296 GB of assets and 10 million x 365 x 1,122 bytes of facts, 2.3 times, twice.
    assert cost["storage", "store, 2 x"] == pytest.approx((1296 + 4095.3) * 2.3 * 2 * 0.08)
    assert cost["storage", "log, 2 x"] == pytest.approx(1e7 * 7 * 821 / 1e9 * 2 * 0.08)
    assert cost["storage", "lake"] == pytest.approx((2343.3 + 642) * 0.023)
    # A month has 730 / 24 days; 3 x 821 bytes of a change cross zones, and 4,246 of WAL.
    assert cost["network", "between zones"] == pytest.approx(
        1e7 * 730 / 24 * (3 * 821 + 4246) / 1e9 * 0.02
    )
    assert cost["network", "facts to subscribers"] == pytest.approx(
        1e7 * 730 / 24 * 1122 / 1e9 * 0.09
    )
    assert len(cost) == 9


def test_the_first_load_is_seconds_times_assets() -> None:
    made = bill(BILLION, RATES, PRICES)
    assert made.first_load_core_hours == pytest.approx(1e9 * 81e-6 / 3600)  # 22.5
    assert made.first_load == pytest.approx(1e9 * 81e-6 / 3600 * 0.045)


def test_many_changes_ask_for_cores_of_every_role() -> None:
    """10,000 changes a second, as a stream that never pauses."""
    wanted = cores(Estate(assets=1e6, changes_per_day=10_000 * 86_400, reads_per_second=0), RATES)
    assert wanted == {
        "serve": 3,  # 50,000 x 44 µs = 2.2
        "pipeline": 11,  # 50,000 x 211 µs = 10.55
        "work": 1,
        "store": 11,  # 50,000 x (108 + 106) µs = 10.7
    }


def test_kafka_adds_three_brokers_their_disks_and_their_replication() -> None:
    estate = Estate(assets=1e6, changes_per_day=1e6, log="kafka")
    cost = {(line.part, line.what): line.cost for line in bill(estate, RATES, PRICES).lines}
    assert cost["kafka", "brokers"] == pytest.approx(3 * 730 * 0.20)
    assert cost["kafka", "disks, 3 x"] == pytest.approx(1e6 * 7 * 821 * 3 / 1e9 * 0.10)
    assert ("storage", "log, 2 x") not in cost
    assert cost["network", "between zones"] == pytest.approx(
        1e6 * 730 / 24 * (5 * 821 + 4246) / 1e9 * 0.02
    )


def test_cheaper_choices_are_ranked_and_save_what_they_say() -> None:
    estate = Estate(assets=1e9, changes_per_day=1e7, log="kafka")
    made = bill(estate, RATES, PRICES)
    saved = {choice.name: choice.saves for choice in made.choices}
    assert list(saved.values()) == sorted(saved.values(), reverse=True)
    without = bill(BILLION, RATES, PRICES)
    assert saved["the log in PostgreSQL"] == pytest.approx(made.total - without.total)
    # 84 cores, twice, 0.007 an hour less each.
    assert saved["ARM cores"] == pytest.approx(84 * 2 * 730 * 0.007)
    assert "the log in PostgreSQL" not in {choice.name for choice in without.choices}


def test_every_rate_says_where_it_was_measured_or_why_it_is_assumed() -> None:
    for name, rate in tables.sources().items():
        assert bool(rate.measured) != bool(rate.assumed), name
        said = rate.measured or rate.assumed
        if said.startswith("docs/"):
            page, _, heading = said.partition(", ")
            text = (ROOT / page).read_text()
            assert f"# {heading.partition(':')[0].partition(',')[0]}" in text, name


def test_measured_rates_are_those_of_the_pages_they_name() -> None:
    for name, rate in tables.sources().items():
        if not rate.measured.startswith("docs/"):
            continue
        page, _, where = rate.measured.partition(", ")
        _, _, figures = where.partition(": ")
        text = (ROOT / page).read_text()
        said = re.findall(r"\d[\d,]*(?: to \d[\d,]*)?(?: µs|/s| bytes)", figures)
        assert said, f"{name} does not say which figures of {page} it stands on"
        missing = [figure for figure in said if figure not in text]
        assert not missing, f"{name} stands on {missing}, which {page} no longer says"


def test_prices_can_be_replaced(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    text = (ROOT / "lily/sizing/prices.toml").read_text()
    own.write_text(text.replace("on_demand = 0.045", "on_demand = 0.09"))
    line = ["cost", "--assets", "1e6", "--changes-per-day", "1e4", "--json"]
    shown = CliRunner().invoke(build(), [*line, "--prices", str(own)])
    usual = CliRunner().invoke(build(), line)
    assert shown.exit_code == usual.exit_code == 0
    dear, cheap = json.loads(shown.stdout)["bill"], json.loads(usual.stdout)["bill"]
    assert dear["total"] - cheap["total"] == pytest.approx(4 * 2 * 730 * 0.045)


def test_a_wrong_price_table_is_refused_with_a_reason(tmp_path: Path) -> None:
    wrong = tmp_path / "prices.toml"
    wrong.write_text("as_of = 'today'\n")
    with pytest.raises(Invalid, match="currency"):
        tables.prices(wrong)


def test_the_page_shows_the_totals_of_this_code() -> None:
    page = (ROOT / "docs/cost.md").read_text()
    assert f"{bill(BILLION, RATES, PRICES).total:,.0f} $" in page
