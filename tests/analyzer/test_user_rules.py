"""Rules that a configuration writes down."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from support.rules import rule
from support.runs import write_run

from analyzer import rules
from analyzer.config import choose, load
from analyzer.engine import judge_run
from analyzer.errors import ConfigError
from analyzer.findings import Finding, RunResult
from analyzer.outputs.style import Style
from analyzer.run import open_run

KNOWN = (rule("GRD001"), rule("LOS001"))


def config(path: Path, text: str) -> Path:
    file = path / "glideslope.toml"
    file.write_text(text)
    return file


def judged(path: Path, text: str) -> RunResult:
    steps = {"loss": [1.0] * 10 + [20.0] * 3 + [1.0] * 5 + [20.0] * 6 + [None], "lr": [[0.1]] * 25}
    layers = {
        "0.weight": {"param_norm": [1.0] * 25, "update_norm": [0.1] * 25},
        "1.weight": {"param_norm": [1.0] * 25, "update_norm": [1e-9] * 20 + [0.1] * 5},
    }
    metrics = {"step": [4, 9], "split": ["valid"] * 2, "name": ["accuracy"] * 2, "value": [0.9, 0.1]}
    run = write_run(path / "run", steps, layers, metrics=metrics)
    return judge_run(open_run(run), choose(KNOWN, load(config(path, text))))


def only(path: Path, text: str) -> Finding:
    (finding,) = judged(path, text).findings
    return finding


def test_rows_in_succession(tmp_path: Path) -> None:
    text = '[rules.high-loss]\nwhen = "loss > 10"\nfor = 5\nseverity = "error"\nmessage = "The loss is above ten."'
    finding = only(tmp_path, text)
    assert (finding.code, finding.name, finding.severity) == ("USR001", "high-loss", "error")
    assert finding.message == "The loss is above ten: steps 18 to 23, 6 rows in succession."
    assert (finding.first_step, finding.last_step, finding.value) == (18, 23, 6)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ('[rules.a]\nwhen = "loss > 10"\nfor = 7', ["passed"]),
        ('[rules.a]\nwhen = "loss > 10"', ["fired"]),
        ('[rules.a]\nwhen = "loss > 10"\nfor = 0.4', ["passed"]),
        ('[rules.a]\nwhen = "loss > 10"\nfor = 0.3', ["fired"]),
        ('[rules.a]\nwhen = "loss > 10 AND lr_max < 0.1"', ["passed"]),
        ('[rules.a]\nwhen = "hess_trace > 10"', ["not-applicable"]),
        ('[rules.a]\nwhen = "loss > 10"\n[rules.b]\nwhen = "step > 99"', ["fired", "passed"]),
        ('ignore = ["USR"]\n[rules.a]\nwhen = "loss > 10"', []),
        ('select = ["USR002"]\n[rules.a]\nwhen = "loss > 10"\n[rules.b]\nwhen = "loss > 10"', ["fired"]),
    ],
)
def test_states(tmp_path: Path, text: str, states: list[str]) -> None:
    found = judged(tmp_path, text).detectors
    assert [state.state for state in found if state.code.startswith("USR")] == states


def test_each_tensor_is_judged_on_its_own(tmp_path: Path) -> None:
    finding = only(tmp_path, '[rules.still]\ntable = "layers"\nwhen = "update_ratio < 1e-6"\nfor = 20')
    assert finding.tensors == ("1.weight",)
    assert finding.severity == "warning"
    assert finding.message.startswith("update_ratio < 1e-6 holds: steps 0 to 19, 20 rows in succession (1.weight)")


def test_metrics(tmp_path: Path) -> None:
    text = """[rules.accuracy]\ntable = "metrics"\nwhen = "name = 'accuracy' AND value < 0.5"\n"""
    assert "(valid/accuracy)" in only(tmp_path, text).message


def test_the_list_and_the_page(tmp_path: Path) -> None:
    text = '[rules.high-loss]\nwhen = "loss > 10"\nfor = 0.25\nmessage = "The loss is above ten"'
    (made,) = choose((), load(config(tmp_path, text))).detectors
    assert "USR001  warning  high-loss  The loss is above ten." in rules.listing([made])
    page = rules.page(made, Style())
    assert "in 25\u202f% of the rows or more" in page
    section = page.partition("[tool.")[2]
    written = tomllib.loads("[tool." + section)["tool"]["glideslope"]["rules"]["high-loss"]
    assert written["when"] == "loss > 10"
    assert written["for"] == 0.25


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[rules.a]\nwhen = "los > 10"', "rules.a.when: table steps has no column 'los' (did you mean \"loss\"?)"),
        ('[rules.a]\nwhen = "loss >"', "rules.a.when is no SQL expression"),
        ('[rules.a]\nwhen = "median_of(loss) > 1"', "rules.a.when is no SQL expression"),
        ('[rules.a]\nwhen = "loss"', "rules.a.when should be true or false, and is Float64"),
        ('[rules.a]\nwhen = ""', "rules.a.when should be a string"),
        ("[rules.a]\nwhen = 1", "rules.a.when should be a string"),
        ('[rules.a]\nwhen = "loss > 1"\nfro = 3', 'rules.a.fro is no key of a rule (did you mean "for"?)'),
        ('[rules.a]\nwhen = "loss > 1"\nfor = 0', "rules.a.for should be a whole number of rows"),
        ('[rules.a]\nwhen = "loss > 1"\nfor = 1.5', "rules.a.for should be a whole number of rows"),
        ('[rules.a]\nwhen = "loss > 1"\nfor = true', "rules.a.for should be a whole number of rows"),
        (
            '[rules.a]\nwhen = "loss > 1"\ntable = "step"',
            "rules.a.table should be one of steps, layers, modules, metrics",
        ),
        ('[rules.a]\nwhen = "loss > 1"\nseverity = "fatal"', "rules.a.severity should be one of error, warning, note"),
        ('[rules.a]\nwhen = "loss > 1"\nmessage = 3', "rules.a.message should be a string"),
        ('[rules.A_b]\nwhen = "loss > 1"', "lower-case words with hyphens"),
        ('[rules.fault-grd001]\nwhen = "loss > 1"', "has the name of GRD001"),
        ('[rules.GRD001]\nwhen = "loss > 1"', "rules.GRD001.when is no option"),
        ("[rules.loss-high]\nfor = 3", "[rules.loss-high] names no rule"),
    ],
)
def test_mistakes_are_one_sentence_that_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    file = config(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        choose(KNOWN, load(file))
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
