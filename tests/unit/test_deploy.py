"""What deploy/ says exists: metrics, settings, commands; and its files can be read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from prometheus_client import CollectorRegistry

from lily import telemetry
from lily.cli.app import build
from lily.cli.deploy import values
from lily.cli.failures import Failure
from lily.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "lily"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "lily.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
METRIC = re.compile(r"\blily_[a-z_]+")
LABELLED = re.compile(r"(lily_[a-z_]+)\{([^}]*)\}")
BY = re.compile(r"\bby \(([^)]*)\)")
FILES = sorted(
    path
    for path in DEPLOY.rglob("*")
    if path.suffix in (".yaml", ".yml") and path.parent.name != "templates"
)


def told() -> dict[str, set[str]]:
    """Names as Prometheus sees them, with their labels."""
    found: dict[str, set[str]] = {}
    for each in vars(telemetry).values():
        describe = getattr(each, "describe", None)
        if describe is None or isinstance(each, CollectorRegistry | type):
            continue
        labels = set(each._labelnames)
        for metric in describe():
            endings = {"counter": ["_total"], "gauge": [""]}.get(
                metric.type, ["_bucket", "_count", "_sum"]
            )
            for ending in endings:
                found[metric.name + ending] = labels | ({"le"} if ending == "_bucket" else set())
    return found


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    scaling = (CHART / "templates" / "scaling.yaml").read_text()
    return [*shown, *(rule["expr"] for rule in rules), *re.findall(r"query: (.*)", scaling)]


def test_every_metric_of_dashboard_alerts_and_scaling_exists() -> None:
    known = told()
    assert known["lily_log_lag"] == {"cell", "lane"}
    for expression in expressions():
        for name in METRIC.findall(expression):
            assert name in known, expression


def test_every_label_that_is_asked_for_is_one_of_its_metric() -> None:
    known = told()
    for expression in expressions():
        names = METRIC.findall(expression)
        every = set().union(*(known[name] for name in names)) if names else {"job", "role"}
        for name, matchers in LABELLED.findall(expression):
            asked = {re.split("[=!]", each)[0] for each in matchers.split(",")}
            assert asked <= known[name], expression
        for group in BY.findall(expression):
            assert {each.strip() for each in group.split(",")} <= every, expression


def test_dashboard_and_alerts_leave_no_metric_out() -> None:
    shown = {name for each in expressions() for name in METRIC.findall(each)}
    families = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in shown}
    missing = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in told()} - families
    assert missing == set()


def test_every_alert_says_what_is_wrong_and_what_helps() -> None:
    for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]:
        assert rule["annotations"].keys() == {"summary", "cure"}
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_the_chart_carries_the_same_alerts() -> None:
    assert (CHART / "files" / "alerts.yaml").read_text() == ALERTS.read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_yaml_file_can_be_read(path: Path) -> None:
    assert list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("mode", ["pooled", "dedicated", "isolated"])
def test_values_of_each_tenancy_fit_the_schema(mode: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    base = yaml.safe_load((CHART / "values.yaml").read_text())
    more = yaml.safe_load((CHART / f"values-{mode}.yaml").read_text())
    Draft7Validator(schema).validate(merged(base, more))
    assert more["tenancy"]["mode"] == mode


@pytest.mark.parametrize("mode", ["pooled", "dedicated", "isolated"])
def test_rendered_values_fit_the_schema_and_name_the_tenant(mode: Any) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    base = yaml.safe_load((CHART / "values.yaml").read_text())
    text = values("acme", mode, "lily.example.org", "images/lily")
    Draft7Validator(schema).validate(merged(base, yaml.safe_load(text)))
    assert "acme" in text


def test_two_isolated_tenants_share_no_name() -> None:
    def names(tenant: str) -> set[str]:
        own = yaml.safe_load(values(tenant, "isolated", "lily.example.org", "lily"))
        hosts = {own["publicUrl"], own["ingress"]["host"], own["ingress"]["tlsSecret"]}
        return {own["tenancy"]["tenant"], own["secret"]["name"], own["lake"], *hosts}

    assert names("acme").isdisjoint(names("globex"))


@pytest.mark.parametrize("name", ["", "Acme", "a b", "-a", "a\nimage: {}"])
def test_a_name_that_would_break_a_manifest_is_refused(name: str) -> None:
    with pytest.raises(Failure):
        values(name, "isolated", "lily.example.org", "lily")


def merged(base: Any, over: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    both = base.keys() & over.keys()
    return {**base, **over, **{key: merged(base[key], over[key]) for key in both}}


def test_every_setting_that_is_set_exists() -> None:
    known = {f"LILY_{name.upper()}" for name in Settings.model_fields}
    text = "".join(
        path.read_text()
        for path in DEPLOY.rglob("*")
        if path.is_file() and path.name != "README.md"
    )
    assert set(re.findall(r"\bLILY_[A-Z0-9_]*[A-Z0-9]", text)) - known <= {"LILY_IMAGE", "LILY_LOG"}


def test_every_role_of_compose_is_a_command() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    commands = {command.callback.__name__ for command in build().registered_commands
                if command.callback}  # fmt: skip
    started = {name: each["command"][0] for name, each in services.items() if "command" in each}
    assert started.keys() == {"migrate", "serve", "pipeline", "bulk", "work"}
    assert set(started.values()) <= commands


def test_the_image_runs_as_nobody_special_and_holds_what_its_steps_copy() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    taken = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    for name in " ".join(taken).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignore, name


def test_nothing_names_a_registry() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            for image in re.findall(r"image: *(\S+)|FROM (\S+)", path.read_text()):
                assert "." not in "".join(image).partition("/")[0].partition(":")[0] or "{" in (
                    "".join(image)
                ), path


def test_the_workflow_runs_what_every_change_must_pass() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    steps = workflow["jobs"]["check"]["steps"]
    assert {"run": "bash .ci/run"} in steps
