from __future__ import annotations

import math

from support.pages import bare_run, full_run, nan_run
from support.runs import write_run

from analyzer.page.audits import audits
from analyzer.run import open_run


def seen(run) -> dict[str, str]:
    return {audit.name: " ".join(audit.seen) for audit in audits(run)}


def test_every_audit_says_what_it_saw(tmp_path):
    said = seen(full_run(tmp_path, 20))
    assert "100\u202f% of the modules in training mode at 20 probed steps." in said["Mode"]
    assert "valid: at most 0\u202f% in training mode over 1 evaluation." in said["Mode"]
    assert "Mean 0.1, standard deviation 1." in said["Model input"]
    assert "0 values not finite in 20 probed steps." in said["Model input"]
    assert "CrossEntropyLoss compared a prediction (64, 10) float32 with a target (64) int64." in said["Loss input"]
    assert "Predictions from \u22124 to 4." in said["Loss input"]
    assert "2 classes: the rarest 9.4\u202f%, the commonest 90.6\u202f% of the targets." in said["Targets"]
    assert "No gradient was left over" in said["Gradients"]
    assert "(clipping) at" in said["Gradients"]
    assert "holds every one of them" in said["Wiring"]
    assert said["Coverage"] == (
        "Individual gradients are seen for 98\u202f% of the parameters. Not for 2.bias (no rule for Odd)."
    )


def test_an_audit_without_a_recording_says_nothing(tmp_path):
    assert set(seen(bare_run(tmp_path)).values()) == {""}


def test_gaps_in_the_wiring_are_listed_by_kind(tmp_path):
    whole = {"name": "whole", "registered": True, "reached": True, "held": True, "requires_grad": True}
    tensors = [
        whole,
        whole | {"name": "detached", "reached": False},
        whole | {"name": "forgotten", "held": False},
        whole | {"name": "frozen", "requires_grad": False, "held": False, "reached": False},
    ]
    event = {"kind": "wiring", "detail": {"tensors": [*tensors, "not an object", 7]}}
    said = seen(open_run(write_run(tmp_path / "run", {"loss": [1.0]}, events=[event])))["Wiring"]
    assert "4 leaf tensors looked at." in said
    assert "Held by an optimizer but not reached by the loss: detached." in said
    assert "Reached by the loss but held by no optimizer: forgotten." in said
    assert "Frozen (requires no gradient): frozen." in said
    assert "every one of them" not in said


def test_leftovers_skipped_steps_and_odd_values_are_counted(tmp_path):
    columns = {
        "stale_grad_norm": [0.0, 2.0, 1.0],
        "skipped": [True, False, False],
        "grad_norm": [1.0, math.nan, 1.0],
        "input_nonfinite": [0.0, 3.0, None],
        "class_counts": [[1.0, 2.0], None, [0.0, 1.0, 4.0]],
    }
    said = seen(open_run(write_run(tmp_path / "run", columns)))
    assert "left over before the backward pass at 2 steps of 3." in said["Gradients"]
    assert "skipped 1 step of 3." in said["Gradients"]
    assert "3 values not finite in 2 probed steps." in said["Model input"]
    assert "3 classes: the rarest 12.5\u202f%" in said["Targets"]


def test_features_of_one_scale_are_told_in_words(tmp_path):
    equal = seen(open_run(write_run(tmp_path / "a", {"input_spread": [1.0, 1.0]})))["Model input"]
    assert equal == "All features that vary do so equally."
    other = seen(open_run(write_run(tmp_path / "b", {"input_spread": [1.0, 2.5]})))["Model input"]
    assert other == "The standard deviation of the widest feature is 1 to 2.5 times that of the narrowest."


def test_nan_everywhere_is_said_and_not_raised(tmp_path):
    assert "Mean" in seen(full_run(tmp_path, 4, input_mean=math.nan, input_std=math.inf))["Model input"]
    assert seen(nan_run(tmp_path))


def test_terms_beside_the_loss_and_mixed_samples_are_told(tmp_path):
    columns = {"loss": [1.5] * 20, "loss_part": [1.0] * 20, "mixing_share": [0.4, *[None] * 19]}
    said = seen(open_run(write_run(tmp_path / "mixed", columns)))
    assert "At the end 1 of the loss is of the loss that was called, 0.5 of terms beside it." in said["Loss input"]
    assert said["Samples"] == "40\u202f% of the gradient of one sample's output falls on other samples."
    alone = seen(open_run(write_run(tmp_path / "alone", {"loss": [1.5] * 20, "mixing_share": [0.0, *[None] * 19]})))
    assert alone["Samples"] == "The output for one sample depends on no other."


def test_answers_that_are_given_are_told(tmp_path):
    columns = {"loss": [1.5] * 3, "copied_share": [0.9, 0.4, 0.25]}
    looked = {
        "sequence_here": [0.1, None, None],
        "sequence_next": [1.0, None, None],
        "sequence_later": [0.3, None, None],
    }
    said = seen(open_run(write_run(tmp_path / "run", columns | looked)))["Answers"]
    assert "explains at most 25\u202f% of the variance" in said
    assert "of their own position: 10\u202f%; of the next: 100\u202f%." in said
    assert said.endswith("30\u202f% of the gradient of an output falls on later positions.")
