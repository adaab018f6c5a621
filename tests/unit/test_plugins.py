"""Finding, loading and building plug-ins; every failure names its cure."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lily import plugins
from lily.errors import Invalid, PluginError
from tests.packages import install, install_test_hooks

ROOT = Path(__file__).parents[2]
SECRET = "swordfish-7"


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install_test_hooks(tmp_path, monkeypatch)
    return tmp_path


def test_the_built_in_hooks_come_through_the_same_door_as_strangers() -> None:
    found = {ep.name: ep for ep in plugins.installed("hook")}
    assert {"rename", "classify"} <= found.keys()
    assert found["rename"].dist is not None and found["rename"].dist.name == "lily"


def test_listing_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "lily-boom", {"boom": "Boom"}, "raise RuntimeError('no')")
    assert "boom" in [ep.name for ep in plugins.installed("hook")]
    assert "lily_boom" not in sys.modules


def test_an_unknown_plugin_is_refused_with_what_is_there_and_what_to_install() -> None:
    with pytest.raises(PluginError, match=r"no hook 'nope'; installed: .*rename.* lily-nope"):
        plugins.load("hook", "nope")


def test_a_name_from_two_packages_is_refused_with_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("lily-one", "lily-two"):
        folder = tmp_path / package
        folder.mkdir()
        install(folder, monkeypatch, package, {"twin": "Twin"}, "class Twin: ...")
    with pytest.raises(PluginError, match="more than one package: lily-one, lily-two; uninstall"):
        plugins.load("hook", "twin")


def test_a_plugin_that_does_not_import_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "lily-torn", {"torn": "Torn"}, "import no_such_module")
    with pytest.raises(PluginError, match=r"does not import: ModuleNotFoundError.*lily-torn"):
        plugins.load("hook", "torn")
    (torn,) = [d for d in plugins.describe("hook") if d.name == "torn"]
    assert "no_such_module" in torn.problem


def test_a_plugin_without_options_is_refused(hooks: Path) -> None:
    with pytest.raises(PluginError, match="no nested pydantic Options"):
        plugins.load("hook", "test-bare")


def test_a_description_has_package_version_and_schema(hooks: Path) -> None:
    (stamp,) = [d for d in plugins.describe("hook") if d.name == "test-stamp"]
    assert (stamp.version, stamp.summary) == ("1.2", "Writes its note into the description.")
    assert stamp.options is not None and "password" in stamp.options["properties"]


def test_wrong_options_are_named_and_their_values_are_not_repeated(hooks: Path) -> None:
    with pytest.raises(Invalid) as caught:
        plugins.check("hook", "test-stamp", {"password": [SECRET], "note": f"bad{SECRET}"})
    assert {e.field for e in caught.value.errors} == {"options.password", "options.note"}
    with pytest.raises(PluginError) as misconfigured:
        plugins.build("hook", "test-stamp", {"password": [SECRET], "note": f"bad{SECRET}"})
    assert "'test-stamp' is misconfigured: options.password" in str(misconfigured.value)
    for error in (caught.value, misconfigured.value):
        assert SECRET not in f"{error!r} {error} {error.__cause__!r}"


def test_secrets_are_split_off_and_joined_again(hooks: Path) -> None:
    given = {"password": SECRET, "note": "n"}
    public, secrets = plugins.split(plugins.check("hook", "test-stamp", given))
    assert public == {"password": plugins.MASK, "note": "n"}
    assert secrets is not None and plugins.hidden(secrets) == (SECRET,)
    assert plugins.join(public, secrets) == given
    assert plugins.join({"note": "n"}, secrets) == {"note": "n"}


GLOSSARY = """
from lily import plugins
from lily.sdk import AssetSeen
(found,) = [d for d in plugins.describe("hook") if d.name == "glossary"]
assert (found.package, found.version, found.problem) == ("lily-glossary", "1.0.0", ""), found
hook = plugins.build("hook", "glossary", {"terms": {"cust": "Customer"}})
assert hook(AssetSeen(qualified_name="a", asset_name="custId")).business_terms == ["Customer"]
"""
EXAMPLES = """
from lily import plugins
for kind in plugins.KINDS:
    found = [d for d in plugins.describe(kind) if d.package == "lily-examples"]
    assert [d.problem for d in found] == [""], (kind, found)
"""


@pytest.mark.parametrize(
    ("package", "program"), [("lily-glossary", GLOSSARY), ("lily-examples", EXAMPLES)]
)
def test_a_package_under_plugins_installs_and_runs_with_nothing_changed_in_lily(
    tmp_path: Path, package: str, program: str
) -> None:
    source = tmp_path / "source"  # building writes beside the sources
    shutil.copytree(ROOT / "plugins" / package, source)
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir"]
    subprocess.run([*pip, *offline, "--target", str(target), str(source)], check=True)
    path = {"PYTHONPATH": f"{target}:{ROOT}"}
    subprocess.run([sys.executable, "-c", program], check=True, env=path, cwd=tmp_path)
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(source / "tests")]
    subprocess.run(suite, check=True, env=path, cwd=source, stdout=subprocess.DEVNULL)
