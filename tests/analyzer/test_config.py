"""Where settings come from, which rules they choose, and what is said about mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rules import Documented, rule

from analyzer.config import Settings, choose, load
from analyzer.errors import ConfigError

RULES = tuple(rule(code) for code in ("GRD001", "GRD002", "LOS001", "NUM001"))


def chosen(**settings: object) -> list[str]:
    return [detector.code for detector in choose(RULES, Settings(**settings)).detectors]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_every_rule_judges_and_errors_fail(tmp_path: Path) -> None:
    assert load(start=tmp_path) == Settings()
    assert chosen() == ["GRD001", "GRD002", "LOS001", "NUM001"]


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({"select": ("GRD",)}, ["GRD001", "GRD002"]),
        ({"select": ("GRD001", "N")}, ["GRD001", "NUM001"]),
        ({"ignore": ("GRD", "NUM001")}, ["LOS001"]),
        ({"select": ("GRD",), "ignore": ("GRD001",)}, ["GRD002"]),
        ({"select": ("GRD001", "LOS"), "ignore": ("GRD",)}, ["GRD001", "LOS001"]),
        ({"select": ("GRD",), "ignore": ("GRD",)}, []),
    ],
)
def test_codes_match_by_prefix_and_the_longer_prefix_decides(settings: dict[str, object], codes: list[str]) -> None:
    assert chosen(**settings) == codes


def test_the_nearest_file_upwards_counts(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.glideslope]\nselect = ["GRD"]\n')
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert load(start=deep).select == ("GRD",)
    write(tmp_path / "a" / "glideslope.toml", 'select = ["NUM"]\nfail-on = "note"\n')
    settings = load(start=deep)
    assert (settings.select, settings.fail_on, settings.source) == (
        ("NUM",),
        "note",
        str(tmp_path / "a" / "glideslope.toml"),
    )


def test_glideslope_toml_stands_above_pyproject_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.glideslope]\nselect = ["GRD"]\n')
    write(tmp_path / "glideslope.toml", 'select = ["NUM"]\n')
    assert load(start=tmp_path).select == ("NUM",)


def test_a_nearer_pyproject_without_a_section_ends_the_search(tmp_path: Path) -> None:
    write(tmp_path / "glideslope.toml", 'select = ["NUM"]\n')
    write(tmp_path / "a" / "pyproject.toml", "[project]\n")
    assert load(start=tmp_path / "a") == Settings()


def test_a_named_file_is_taken_wherever_it_lies(tmp_path: Path) -> None:
    assert load(write(tmp_path / "strict.toml", 'fail-on = "warning"')).fail_on == "warning"
    named = write(tmp_path / "pyproject.toml", '[tool.glideslope]\nfail-on = "note"')
    assert load(named).fail_on == "note"


def test_flag_above_file_above_default(tmp_path: Path) -> None:
    settings = load(write(tmp_path / "glideslope.toml", 'select = ["GRD"]\nignore = ["GRD002"]\nfail-on = "note"'))
    assert settings.overridden() == settings
    flags = settings.overridden(select=("NUM",), fail_on="warning")
    assert (flags.select, flags.ignore, flags.fail_on) == (("NUM",), ("GRD002",), "warning")


def test_options_of_rules(tmp_path: Path) -> None:
    text = '[rules.DOC001]\nmost = 5\nshare = 1\nkinds = ["c"]\nseverity = "note"\n'
    rules = choose([Documented()], load(write(tmp_path / "glideslope.toml", text)))
    assert rules.detectors == (Documented(most=5, share=1.0, kinds=("c",)),)
    assert rules.severities == {"DOC001": "note"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select = [", "is not TOML"),
        ('slect = ["GRD"]', 'there is no setting "slect" (did you mean "select"?)'),
        ('select = "GRD"', '"select" should be a list of codes'),
        ("select = [1]", '"select" should be a list of codes'),
        ('fail-on = "fatal"', "\"fail-on\" should be one of error, warning, note, not 'fatal'"),
        ("rules = 1", '"rules" should hold a table for each rule'),
        ("[rules]\nGRD001 = 1", '"rules" should hold a table for each rule'),
        ('select = ["GRX"]', 'no rule has the code "GRX" (did you mean "GRD'),
        ('ignore = [""]', 'no rule has the code ""'),
        ('require = ["STP"]', 'no rule has the code "STP"'),
        ("[rules.GRD01]", '[rules.GRD01] names no rule (did you mean "GRD001"?)'),
        (
            "[rules.GRD001]\nlimt = 3.0",
            'rules.GRD001.limt is no option (did you mean "limit"?); there are severity, limit',
        ),
        ('[rules.GRD001]\nlimit = "3"', "rules.GRD001.limit should be a number, not '3'"),
        ("[rules.GRD001]\nlimit = true", "rules.GRD001.limit should be a number, not True"),
        ('[rules.GRD001]\nseverity = "bad"', "rules.GRD001.severity should be one of"),
        ('require = ["GRD"]\nignore = ["GRD002"]', "GRD002 is required but not selected"),
    ],
)
def test_mistakes_are_one_sentence_that_names_the_file(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path / "glideslope.toml", text)
    with pytest.raises(ConfigError) as caught:
        choose(RULES, load(path))
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(("name", "words"), [("gone.toml", "cannot be read"), ("pyproject.toml", "has no section")])
def test_a_named_file_must_serve(tmp_path: Path, name: str, words: str) -> None:
    write(tmp_path / "pyproject.toml", "[project]\n")
    with pytest.raises(ConfigError, match=words):
        load(tmp_path / name)


def test_a_pyproject_whose_tool_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="should be a table"):
        load(write(tmp_path / "pyproject.toml", "[tool]\nglideslope = 1"))
    assert load(start=write(tmp_path / "x" / "pyproject.toml", "tool = 1").parent) == Settings()
