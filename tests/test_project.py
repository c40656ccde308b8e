"""What holds for the project as a whole: what is imported where, registries, names, and words that must not stay."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import pytest

import recorder

ROOT = Path(__file__).parents[1]

IMPORT_AND_LIST = """
import importlib, json, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name.removesuffix(".*"))
    if name.endswith(".*"):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
print(json.dumps(list(sys.modules)))
"""


def loaded_by_importing(*names: str, blocked: tuple[str, ...] = ()) -> set[str]:
    """Names of the modules that a fresh interpreter holds after importing; `.*` stands for all modules of a package."""
    block = "".join(f"import sys; sys.modules[{name!r}] = None\n" for name in blocked)
    ended = subprocess.run([sys.executable, "-c", block + IMPORT_AND_LIST, *names], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stdout.splitlines()[-1])) - set(blocked)


def test_the_analyzer_needs_neither_torch_nor_the_rest_of_the_recorder():
    loaded = loaded_by_importing("analyzer.*", blocked=("torch", "pyarrow", "backpack", "sklearn"))
    assert {name for name in loaded if name.split(".")[0] == "recorder"} <= {"recorder", "recorder.schema"}


def test_importing_the_analyzer_does_not_import_torch():
    assert not {"torch", "pyarrow"} & loaded_by_importing("analyzer.*")


def test_the_recorder_never_imports_the_analyzer_or_what_only_that_needs():
    loaded = loaded_by_importing("recorder.*", blocked=("polars", "altair", "jinja2", "typer", "rich"))
    assert "torch" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "analyzer"}


def test_importing_the_recorder_brings_torch_only_with_the_recorder_itself():
    assert not {"torch", "pyarrow", "polars"} & loaded_by_importing("recorder", "recorder.schema", "recorder.demo")


def defined_in(path: Path, package: str) -> list[object]:
    """What a file defines under a name for users: classes, and the declarations in a table of such; bases have none."""
    module = importlib.import_module(f"{package}.{path.stem}")
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    classes = [value for value in own if isinstance(value, type) and isinstance(vars(value).get("name"), str)]
    tables = [value for value in vars(module).values() if isinstance(value, MappingProxyType)]
    return [*classes, *(item for table in tables for item in table.values() if hasattr(item, "name"))]


def member(of_registry: object) -> object:
    """A member as its file defines it: the class, or the declaration itself where the class has no name of its own."""
    kind = of_registry if isinstance(of_registry, type) else type(of_registry)
    return kind if isinstance(vars(kind).get("name"), str) else of_registry


@pytest.mark.parametrize(
    ("package", "registry"),
    [("analyzer.detectors", "DETECTORS"), ("analyzer.charts", "CHARTS"), ("recorder.instruments", "INSTRUMENTS")],
)
def test_every_file_of_a_registry_is_listed(package, registry):
    module = importlib.import_module(package)
    files = Path(module.__path__[0]).glob("[!_]*.py")
    defined = {str(each) for path in files for each in defined_in(path, package)}
    assert defined, "found nothing that could be listed"
    members = [str(member(each)) for each in getattr(module, registry)]
    assert sorted(defined) == sorted(members)


def test_the_version_is_the_same_everywhere():
    assert version("glideslope") == recorder.__version__
    assert f"## [{recorder.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def project_files() -> list[Path]:
    folders = [ROOT / name for name in ("recorder", "analyzer", "reports", "tests", ".ci")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    return [
        path for path in files if "__pycache__" not in path.parts and path.suffix not in {".png", ".parquet", ".npz"}
    ]


def test_nothing_is_marked_unfinished_and_nothing_names_a_path_of_one_machine():
    unwanted = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b|/(root|home|work)/[a-z]")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in project_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if unwanted.search(line)
    ]
    assert found == []


def test_both_packages_tell_type_checkers_that_they_are_typed():
    assert (ROOT / "recorder/py.typed").exists()
    assert (ROOT / "analyzer/py.typed").exists()
