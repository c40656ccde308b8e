from __future__ import annotations

import pytest
from zoo.judging import Judgement, Named
from zoo.scoreboard import between_markers
from zoo.tally import Case, alarmed, by_rule, clustered, marks, total, wilson

RATE = Case("faulty", ("rate-too-large",), frozenset({"STP001"}))
CASES = {
    ("a", "fast"): RATE,
    ("a", "plain"): Case("twin"),
    ("b", "fast"): RATE,
    ("b", "plain"): Case("healthy"),
    ("b", "harmless"): Case("benign", ("rate-too-large",), frozenset({"STP001"})),
}


def said(program: str, variant: str, *named: Named, seed: int = 0, **more: object) -> Judgement:
    return Judgement("us", program, variant, seed, 100, named, **more)  # type: ignore[arg-type]


TRUE = Named("STP001", "error", first_step=7)
SYMPTOM = Named("LOS001", "error")
FALSE = Named("GRD002", "warning", first_step=0)


@pytest.mark.parametrize(
    ("named", "hit", "top", "wrong", "delay"),
    [
        ((), False, False, (), None),
        ((TRUE,), True, True, (), 7),
        ((SYMPTOM,), False, False, (), None),
        ((SYMPTOM, TRUE), True, False, (), 7),
        ((FALSE, TRUE), True, False, ("GRD002",), 7),
        ((TRUE, FALSE, FALSE), True, True, ("GRD002",), 7),
        ((TRUE, Named("GRD002", "warning", root=False)), True, True, (), 7),
        ((FALSE, Named("STP001", "error", root=False)), True, False, ("GRD002",), None),
        ((TRUE, Named("GRD002", "note")), True, True, (), 7),
        ((Named("LossGrows", "error", kinds=("rate-too-large", "diverged")),), True, True, (), None),
        ((Named("LossGrows", "error", kinds=("diverged",)),), False, False, (), None),
        ((Named("Flat", "error", kinds=("vanishing-gradients",)),), False, False, ("Flat",), None),
    ],
)
def test_a_cause_counts_at_any_depth_and_first_only_at_the_top(named, hit, top, wrong, delay):
    found = marks(said("a", "fast", *named), RATE)
    assert (found.hit, found.top, found.wrong, found.delay) == (hit, top, wrong, delay)


def test_an_alarm_is_as_grave_as_the_gravest_thing_said():
    judgement = said("a", "plain", Named("X", "note"), Named("Y", "warning", root=False))
    assert [alarmed(judgement, severity) for severity in ("error", "warning", "note")] == [False, True, True]
    assert not alarmed(said("a", "plain"), "note")


def test_intervals_are_those_of_the_textbook():
    assert wilson(5, 10).low == pytest.approx(0.2366, abs=1e-4)
    assert wilson(5, 10).high == pytest.approx(0.7634, abs=1e-4)
    assert wilson(0, 150).low == 0
    assert wilson(0, 150).high == pytest.approx(0.02497, abs=1e-4)
    assert str(wilson(0, 0)) == "–"


def test_runs_of_a_program_are_worth_less_than_as_many_programs():
    together = clustered([("a", True)] * 20 + [("b", False)] * 20)
    apart = clustered([(str(number), number % 2 == 0) for number in range(40)])
    assert (together.count, together.of) == (apart.count, apart.of) == (20, 40)
    assert (together.low, together.high) == (0, 1)
    assert 0.3 < apart.low < 0.5 < apart.high < 0.7


def test_where_programs_agree_their_number_counts():
    none = clustered((str(program), False) for program in range(10) for _ in range(5))
    assert (none.count, none.of, none.low) == (0, 50, 0)
    assert none.high == wilson(0, 10).high
    assert clustered([]).of == 0


def test_roles_are_counted_apart():
    judgements = [
        said("a", "fast", TRUE),
        said("b", "fast", FALSE),
        said("a", "plain", Named("STP001", "warning")),
        said("b", "plain"),
        said("b", "harmless", TRUE),
    ]
    row = total("us", judgements, CASES)
    assert [(rate.count, rate.of) for rate in (row.hit, row.top, row.wrong)] == [(1, 2), (1, 2), (1, 2)]
    counts = {role: [rates[s].count for s in ("error", "warning", "note")] for role, rates in row.alarms.items()}
    assert counts == {"twin": [0, 1, 1], "healthy": [0, 0, 0], "benign": [1, 1, 1]}
    assert row.delays == (7,)


def test_a_rule_answers_only_for_runs_that_it_judged():
    judgements = [
        said("a", "plain", Named("STP001", "note"), Named("STP001", "warning")),
        said("a", "plain", seed=1, silent={"STP001": "too short"}),
        said("b", "plain", failed={"STP001": "ValueError"}),
        said("b", "plain", seed=1),
        said("a", "fast", TRUE, FALSE),
        said("b", "fast"),
    ]
    rate, vanishing = by_rule(["STP001", "GRD002"], judgements, CASES)
    assert (rate.healthy, rate.alarms) == (2, {"error": 0, "warning": 1, "note": 0})
    assert (rate.right, rate.faulty, rate.wrong, rate.obstacle) == (1, 2, 0, "too short (1)")
    assert (vanishing.healthy, vanishing.right, vanishing.faulty, vanishing.wrong) == (4, 0, 0, 1)


def test_the_table_stands_between_its_markers():
    text = "a\n<!-- scoreboard tuning -->\nold\n<!-- end of scoreboard tuning -->\nb\n"
    once = between_markers(text, "tuning", "| new |")
    assert once == "a\n<!-- scoreboard tuning -->\n| new |\n<!-- end of scoreboard tuning -->\nb\n"
    assert between_markers(once, "tuning", "| new |") == once
    with pytest.raises(LookupError, match="scoreboard heldout"):
        between_markers(text, "heldout", "| new |")
