"""The chart, rendered by Helm itself and held against Kubernetes' own schemas."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from tests.scale.tools import by_go, by_pip

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "lily"
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
MODES = ("pooled", "dedicated", "isolated")
KUBERNETES = "1.31.0"
EVERYTHING = (
    "keda.enabled=true,monitoring.podMonitor=true,monitoring.rules=true,"
    "log=kafka://k:9092,kafka.mechanism=PLAIN,kafka.ca=true,spark.workers=2"
)
CLUSTER = (
    "--set", "spark.workers=2",
    "--set-string", r"bulk.sparkProperties.spark\.dynamicAllocation\.maxExecutors=3",
)  # fmt: skip
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject"}  # not Kubernetes' own
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def helm(missing: Callable[[str], NoReturn]) -> str:
    return by_go("helm", HELM, missing)


@pytest.fixture(scope="session")
def validate(missing: Callable[[str], NoReturn]) -> Callable[[Path], str]:
    """What the schemas of Kubernetes say against a file; nothing if it is right."""
    place = by_pip("kubernetes-validate", missing)

    def check(path: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", "-k", "1.31",
             str(path)],
            env={"PYTHONPATH": str(place)}, capture_output=True, text=True,
        )  # fmt: skip
        return "" if done.returncode == 0 else done.stdout + done.stderr

    return check


def rendered(helm: str, mode: str, *more: str) -> list[dict[str, Any]]:
    values = str(CHART / f"values-{mode}.yaml")
    line = [helm, "template", "lily", str(CHART), "--kube-version", KUBERNETES, "-f", values, *more]
    text = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    return [each for each in yaml.safe_load_all(text) if each]


def test_the_chart_passes_helms_own_lint(helm: str) -> None:
    for mode in MODES:
        values = str(CHART / f"values-{mode}.yaml")
        line = [helm, "lint", str(CHART), "--strict", "--kube-version", KUBERNETES, "-f", values]
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("mode", MODES)
def test_every_manifest_of_a_mode_fits_the_schemas_of_kubernetes(
    helm: str, validate: Callable[[Path], str], mode: str, tmp_path: Path
) -> None:
    found = rendered(helm, mode, "--set", EVERYTHING)
    assert {each["kind"] for each in found} >= CUSTOM | {"NetworkPolicy", "PodDisruptionBudget"}
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(each for each in found if each["kind"] not in CUSTOM))
    assert validate(path) == ""


@pytest.mark.parametrize("mode", MODES)
def test_every_pod_is_confined_and_no_secret_is_written_out(helm: str, mode: str) -> None:
    found = rendered(helm, mode)
    for each in found:
        assert each["kind"] != "Secret"
        if each["kind"] not in ("Deployment", "Job"):
            continue
        pod = each["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        database = next(e for e in container["env"] if e["name"] == "LILY_DATABASE")
        assert "secretKeyRef" in database["valueFrom"]
        assert each["kind"] == "Job" or "livenessProbe" in container


def test_a_spark_cluster_has_no_secrets_and_its_drivers_their_settings(helm: str) -> None:
    found = {(e["kind"], e["metadata"]["name"]): e for e in rendered(helm, "pooled", *CLUSTER)}
    for part in ("master", "worker"):
        pod = found["Deployment", f"lily-spark-{part}"]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert not any("secret" in volume for volume in pod["volumes"])
        assert not any(each["name"].startswith("LILY_") for each in pod["containers"][0]["env"])
    for role in ("pipeline", "bulk"):
        pod = found["Deployment", f"lily-{role}"]["spec"]["template"]["spec"]
        given = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        assert given["LILY_SPARK"] == "spark://lily-spark:7077"
        assert given["SPARK_CONF_DIR"] in [
            e["mountPath"] for e in pod["containers"][0]["volumeMounts"]
        ]
    written = found["ConfigMap", "lily-spark"]["data"]
    assert "spark.dynamicAllocation.maxExecutors 3\n" in written["bulk"]
    assert "dynamicAllocation" not in written["pipeline"]


def test_behind_a_pooler_every_role_knows_the_way_past_it(helm: str) -> None:
    found = rendered(helm, "pooled", "--set", "databaseDirect=true")
    pods = [e["spec"]["template"]["spec"] for e in found if e["kind"] in ("Deployment", "Job")]
    given = [{each["name"] for each in pod["containers"][0]["env"]} for pod in pods]
    assert given and all("LILY_DATABASE_DIRECT" in names for names in given)
    policies = [each["spec"] for each in found if each["kind"] == "NetworkPolicy"]
    ports = {p["port"] for each in policies for out in each.get("egress", []) for p in out["ports"]}
    assert {5432, 6432} <= ports


def test_an_isolated_tenant_must_have_a_name(helm: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        rendered(helm, "isolated", "--set", "tenancy.tenant=")


def test_a_rendered_tenant_is_a_release_of_its_own(helm: str, tmp_path: Path) -> None:
    lily = [sys.executable, "-m", "lily.cli", "deploy", "render", "--host", "lily.example.org"]
    names = []
    for tenant in ("acme", "globex"):
        values = tmp_path / f"{tenant}.yaml"
        line = [*lily, "--tenant", tenant, "--mode", "isolated", "--to", str(values)]
        subprocess.run(line, check=True, capture_output=True)
        line = [helm, "template", f"lily-{tenant}", str(CHART), "--kube-version", KUBERNETES]
        text = subprocess.run(
            [*line, "-f", str(values), "--namespace", f"lily-{tenant}"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert tenant in text
        names.append({(e["kind"], e["metadata"]["name"]) for e in yaml.safe_load_all(text) if e})
    assert names[0].isdisjoint(names[1])
