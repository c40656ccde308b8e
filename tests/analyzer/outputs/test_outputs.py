"""Forms of a result: text for people, JSON for programs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest
from support.rules import finding, full_finding

import analyzer
from analyzer import outputs
from analyzer.baseline import against
from analyzer.engine import combine, unreadable
from analyzer.errors import ConfigError
from analyzer.findings import DetectorState, Result, RunResult
from analyzer.outputs.style import Style, style_of

SCHEMA = json.loads((Path(analyzer.__file__).parent / "result.schema.json").read_text())

STATES = (
    DetectorState("AAA001", "fault-aaa001", "fired"),
    DetectorState("BBB001", "fault-bbb001", "not-applicable", "no instrument recorded steps.alpha"),
    DetectorState("CCC001", "fault-ccc001", "failed", "ValueError: x"),
    DetectorState("DDD001", "fault-ddd001", "passed"),
)
EXAMPLE = combine(
    [RunResult("runs/a", "failed", 500, "fail", (full_finding(),), STATES, ("steps/x is torn",), "OSError: disk")],
    "error",
)

BEFORE = RunResult(
    "runs/base",
    "completed",
    9,
    "fail",
    (
        finding(tensors=("0.weight",)),
        finding("DDD001", "warning", tensors=("a", "b", "c", "d")),
        finding("BBB001", tensors=("x",)),
    ),
    (DetectorState("AAA001", "fault-aaa001", "fired"),),
)
COMPARED = combine([against(EXAMPLE.runs[0], BEFORE)], "error", new_only=True)

TEXT = """\
FAIL  runs/a  500 steps, failed: OSError: disk
  ! steps/x is torn

  error  AAA001 fault-aaa001  steps 3 to 25
    AAA001 fired
    for:
      - the loss rose
    against:
      - alpha stayed low
    likely causes:
      - the rate
    try:
      - divide it by 3
    explains:
      - warning BBB001 fault-bbb001: BBB001 fired

  rules: 1 fired, 1 passed, 1 not applicable, 1 failed
    - BBB001 fault-bbb001 not applicable: no instrument recorded steps.alpha
    - CCC001 fault-ccc001 failed: ValueError: x

FAIL: 1 error, 0 warnings, 0 notes, 1 symptom in 1 run (fails on error); 2 of 4 rules could not judge
"""


def text(result: Result, style: Style | None = None) -> str:
    return outputs.named("text").render(result, style or Style())


def test_text() -> None:
    assert text(EXAMPLE) == TEXT


def test_text_against_a_baseline() -> None:
    lines = text(COMPARED).splitlines()
    assert "  error  AAA001 fault-aaa001  known  steps 3 to 25" in lines
    assert "      - warning BBB001 fault-bbb001 new: BBB001 fired" in lines
    start = lines.index("  gone, found in runs/base")
    assert lines[start - 1 : start + 7] == [
        "",
        "  gone, found in runs/base",
        "    - warning DDD001 fault-ddd001 in a, b, c and 1 more: DDD001 fired",
        "",
        "  not judged this time, found in runs/base",
        "    - error BBB001 fault-bbb001 in x (no instrument recorded steps.alpha): BBB001 fired",
        "",
        "  Could not judge runs/base, so that what they find is new: DDD001.",
    ]
    assert lines[-1].endswith(
        "(fails on error, new findings only); 2 of 4 rules could not judge; against runs/base: 1 new, 1 known, 1 gone"
    )


def test_text_says_in_which_layers_a_finding_is_new() -> None:
    now = RunResult("r", "completed", 9, "fail", (finding(tensors=("0.weight", "2.weight")),), ())
    assert "new in 2.weight" in text(combine([against(now, BEFORE)], "error"))


def test_long_sentences_are_wrapped_under_their_first_word() -> None:
    result = combine([RunResult("r", "completed", 1, "fail", (finding(advice=("word " * 30,)),), ())], "error")
    lines = text(result, Style(width=60)).splitlines()
    assert max(map(len, lines)) <= 60
    assert [line for line in lines if line.startswith("        word")]


def test_colours_are_only_around_the_same_text() -> None:
    colored = text(EXAMPLE, Style(color=True))
    assert "\x1b[1;31mFAIL\x1b[0m" in colored
    bare = colored.replace("\x1b[0m", "")
    for code in ("\x1b[1;31m", "\x1b[1;33m", "\x1b[1m", "\x1b[2m"):
        bare = bare.replace(code, "")
    assert bare == TEXT


def test_control_characters_of_names_are_shown_and_not_obeyed() -> None:
    hostile = finding(first_step=1, evidence=full_finding().evidence, advice=("\x1b[2Jgone\r\nx\u202e",))
    written = text(combine([RunResult("a\x1b]0;b\x07", "completed", 1, "fail", (hostile,), ())], "error"))
    assert "\x1b" not in written
    assert "\\x1b[2Jgone\\r\\nx\\u202e" in written


def test_a_run_that_cannot_be_read() -> None:
    written = text(combine([unreadable("runs/x", "runs/x does not exist: ...")], "error"))
    assert written.splitlines()[0] == "NOT JUDGED  runs/x  could not be read"
    assert written.splitlines()[-1].startswith("NOT JUDGED: 0 errors")


def test_a_run_that_was_not_judged_says_why_and_is_counted() -> None:
    mute = RunResult("runs/m", "completed", 9, "not-judged", (), STATES[1:2], reason="no rule could judge it")
    lines = text(combine([mute, unreadable("runs/x", "gone"), mute], "error")).splitlines()
    assert lines[1] == "  Not judged: no rule could judge it."
    assert lines[-1].endswith("in 3 runs (fails on error); 3 runs not judged, 2 of 2 rules could not judge")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "color"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_only_on_a_terminal_that_wants_them(
    stream: io.StringIO, environment: dict[str, str], color: bool
) -> None:
    assert style_of(stream, environment).color is color


def test_the_document_is_valid_by_the_shipped_schema() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    for result in (EXAMPLE, COMPARED, combine([], "note"), combine([unreadable("x", "gone")], "warning")):
        validator.validate(json.loads(outputs.named("json").render(result, Style())))


def test_the_schema_knows_every_key_of_the_document() -> None:
    """A key that is added to the document is to be described."""
    document = EXAMPLE.document()
    run, found = document["runs"][0], document["runs"][0]["findings"][0]
    assert document.keys() == SCHEMA["properties"].keys()
    assert run.keys() == SCHEMA["$defs"]["run"]["properties"].keys()
    assert run["detectors"][0].keys() == SCHEMA["$defs"]["detector"]["properties"].keys()
    assert found.keys() == SCHEMA["$defs"]["finding"]["properties"].keys()
    baseline = COMPARED.document()["runs"][0]["baseline"]
    assert baseline.keys() == SCHEMA["$defs"]["baseline"]["properties"].keys()
    assert baseline["gone"][0].keys() == SCHEMA["$defs"]["gone"]["properties"].keys()


def test_json_has_no_number_that_json_lacks() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(outputs.named("json").render(EXAMPLE, Style()), parse_constant=refuse)
    assert document["runs"][0]["findings"][0]["value"] is None
    assert document["runs"][0]["findings"][0]["evidence"]["against"] == ["alpha stayed low"]


def test_an_unknown_format_is_named_with_the_closest() -> None:
    with pytest.raises(ConfigError, match=r'no format "jsn" \(did you mean "json"\?\)'):
        outputs.named("jsn")


def test_every_file_that_renders_a_result_is_listed() -> None:
    folder = Path(outputs.__file__).parent
    renders = {path.stem for path in folder.glob("*.py") if "\ndef render(result: Result" in path.read_text()}
    assert renders == {output.name for output in outputs.OUTPUTS}
