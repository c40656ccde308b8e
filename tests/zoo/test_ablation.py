from __future__ import annotations

import pytest
import torch
from torch import nn
from zoo.ablation import AUDITED, EVENTS, GROUPS, veiled
from zoo.judging import loaded

from recorder import Recorder, schema
from recorder.instruments import INSTRUMENTS, PRESETS

ALL = frozenset(GROUPS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    where = tmp_path_factory.mktemp("run") / "full"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    inputs, targets = torch.randn(16, 4), torch.randint(3, (16,))
    with Recorder(where, model, optimizer, loss_fn, preset="full") as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(loss_fn(model(inputs), targets))
            optimizer.step()
        with recorder.evaluate("valid"):
            model(inputs)
        recorder.log("train", loss=1.0)
        recorder.log("valid", loss=2.0)
    return loaded(where)


def test_every_instrument_has_a_group_and_the_first_two_are_the_preset_basic():
    names = [name for group in GROUPS.values() for name in group]
    assert {item.name for item in INSTRUMENTS} <= set(names)
    assert len(set(names)) == len(names)
    assert {item.name for item in PRESETS["basic"]} == {*GROUPS["norms"], *GROUPS["audits"]}
    assert set(EVENTS) <= set(schema.EVENT_KINDS)
    assert all(column in schema.TABLES[table].columns for table, column in (name.split(".") for name in AUDITED))


def test_with_all_groups_nothing_is_hidden(run):
    seen = veiled(run, ALL)
    for table in run._tables:
        assert seen.table(table).collect().equals(run.table(table).collect(), null_equal=True)


def test_hidden_columns_are_null_and_so_is_what_follows_from_them(run):
    assert run.has("steps", "alpha")
    assert run.has("layers", "update_ratio")
    seen = veiled(run, frozenset())
    assert not any(seen.has("layers", name) for name in ("grad_norm", "param_norm", "update_ratio"))
    assert not any(seen.has("steps", name) for name in ("alpha", "grad_var", "prediction_max", "hess_max_ev"))
    assert seen.has("steps", "loss")
    assert seen.has("steps", "lr_max")
    assert seen.row_count("layers") == run.row_count("layers")
    assert not seen.instruments


def test_audits_come_after_norms(run):
    norms, audits = (veiled(run, frozenset(list(GROUPS)[:number])) for number in (1, 2))
    assert norms.has("layers", "grad_norm")
    assert not norms.events_of("wiring")
    assert audits.events_of("wiring")
    assert not norms.has("steps", "prediction_max")
    assert audits.has("steps", "prediction_max")
    assert not audits.has("steps", "alpha")


def test_metrics_of_validation_can_be_withheld(run):
    assert set(run.frame("metrics", "value")["split"].cast(str)) == {"train", "valid"}
    assert set(veiled(run, ALL, validation=False).frame("metrics", "value")["split"].cast(str)) == {"train"}
