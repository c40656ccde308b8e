"""Life of a step: what closes it, what its row says, and that errors stay where they belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.nosync import no_sync
from support.trainings import read, train
from torch import Tensor, nn

from recorder import Recorder
from recorder.instruments import PRESETS, GradientNorms
from recorder.instruments.base import Instrument


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 6), torch.randint(0, 3, (8,))


def test_a_step_that_never_differentiates_leaves_no_row(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for skip in (False, True, False):
            with recorder.step() as step:
                loss = F.cross_entropy(net(batch()[0]), batch()[1])
                if skip:
                    continue
                step.backward(loss)
            optimizer.step()
    assert read(tmp_path / "run", "steps")["step"].to_list() == [0, 1]


def test_the_optimizer_may_step_inside_the_block(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(3):
            with recorder.step() as step:
                optimizer.zero_grad()
                step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
                optimizer.step()
    steps = read(tmp_path / "run", "steps")
    assert steps["update_norm"].is_not_null().all()
    assert steps["end_slope"].to_list()[1:] == pytest.approx(steps["end_slope_total"].to_list()[1:], rel=1e-4)


class Doubled(torch.optim.SGD):
    """Does something after the step of its base class, whose hooks fire as well once that class was used by itself."""

    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.sub_(parameter.grad, alpha=self.param_groups[0]["lr"])
        return result


class Composite(torch.optim.SGD):
    """Steps a second optimizer of its own, then itself."""

    def __init__(self, parameters: Any, lr: float) -> None:
        held = list(parameters)
        super().__init__(held, lr=lr)
        self.second = torch.optim.SGD(held, lr=lr)

    def step(self, closure: Any = None) -> Any:
        self.second.step()
        return super().step(closure)


@pytest.mark.parametrize("kind", [Doubled, Composite])
def test_a_step_within_a_step_ends_with_the_outer_one(tmp_path: Path, kind: type[torch.optim.Optimizer]) -> None:
    """Both of them move each parameter by twice the rate times its gradient."""
    torch.optim.SGD(model().parameters(), lr=0.1)  # from here on torch calls the hooks in the base class as well
    net = model()
    optimizer = kind(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
            optimizer.step()
    steps = read(tmp_path / "run", "steps")
    assert steps["update_norm"].to_list() == pytest.approx((0.2 * steps["grad_norm"]).to_list(), rel=1e-4)


def test_unreduced_losses_are_averaged_and_give_the_scatter(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = batch()
    expected = F.cross_entropy(net(x), y, reduction="none")
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder, recorder.step() as step:
        step.backward(F.cross_entropy(net(x), y, reduction="none"))
    row = read(tmp_path / "run", "steps").to_dicts()[0]
    assert row["loss"] == pytest.approx(expected.mean().item(), rel=1e-6)
    assert row["loss_var"] == pytest.approx(expected.var().item(), rel=1e-5)
    assert row["batch_size"] == 8


def test_a_closure_is_recorded_once_and_counted(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)
    x, y = batch()
    losses: list[float] = []
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(2):
            with recorder.step() as step:

                def closure(step=step) -> Tensor:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(net(x), y)
                    step.backward(loss)
                    losses.append(loss.item())
                    return loss

                optimizer.step(closure)
    rows = read(tmp_path / "run", "steps").to_dicts()
    assert len(rows) == 2
    assert rows[0]["loss"] == pytest.approx(losses[0])
    assert rows[0]["evaluations"] + rows[1]["evaluations"] == len(losses)
    assert rows[1]["loss"] < rows[0]["loss"]


def test_optimizers_in_turn_say_whose_step_it_was(tmp_path: Path) -> None:
    generator, critic = nn.Linear(2, 6), nn.Linear(6, 1)
    both = nn.ModuleDict({"generator": generator, "critic": critic})
    first = torch.optim.SGD(critic.parameters(), lr=0.1)
    second = torch.optim.SGD(generator.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", both, [first, second], strict=True) as recorder:
        for _ in range(3):
            for optimizer in (first, second):
                optimizer.zero_grad()
                with recorder.step() as step:
                    step.backward(critic(torch.tanh(generator(torch.randn(4, 2)))).mean())
                optimizer.step()
    assert read(tmp_path / "run", "steps")["optimizer"].to_list() == [0, 1] * 3


def test_two_optimizers_of_one_step_make_one_row(tmp_path: Path) -> None:
    net = model()
    optimizers = [torch.optim.SGD(net[0].parameters(), lr=0.1), torch.optim.Adam(net[2].parameters(), lr=0.1)]
    with Recorder(tmp_path / "run", net, optimizers, strict=True) as recorder:
        for _ in range(3):
            with recorder.step() as step:
                net.zero_grad()
                step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
            for optimizer in optimizers:
                optimizer.step()
    steps, layers = read(tmp_path / "run", "steps"), read(tmp_path / "run", "layers")
    assert steps["step"].to_list() == [0, 1, 2]
    assert (layers["update_norm"] > 0).all()
    assert steps["end_slope"].to_list()[1:] == pytest.approx(steps["end_slope_total"].to_list()[1:], rel=1e-4)


def test_a_scaler_s_factor_is_taken_out_and_skipped_steps_are_told(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = batch()
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for factor in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(F.cross_entropy(net(x), y) * factor, scaler=scaler)
            scaler.step(optimizer)
            scaler.update()
    rows = read(tmp_path / "run", "steps").to_dicts()
    assert rows[0]["loss_scale"] == 1024.0
    assert rows[0]["grad_norm_clipped"] is None
    assert rows[0]["start_slope"] == pytest.approx(-0.1 * rows[0]["grad_norm"] ** 2, rel=1e-4)
    assert [row["skipped"] for row in rows] == [None, True, None]
    assert "skipped-step" in read(tmp_path / "run", "events")["kind"].to_list()


def test_accumulated_gradients_left_from_before_are_measured(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(2):
            with recorder.step() as step:
                step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
            optimizer.step()
    rows = read(tmp_path / "run", "steps").to_dicts()
    assert rows[0]["stale_grad_norm"] is None
    assert rows[1]["stale_grad_norm"] == pytest.approx(rows[0]["grad_norm"], rel=1e-6)


def test_an_exception_of_the_user_passes_through_and_the_next_step_is_recorded(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()]
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for fails in (False, True, False):
            if fails:
                with pytest.raises(KeyError, match="mine"), recorder.step():
                    net({"not": "a tensor"}["mine"])
                assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()] == hooks
                continue
            with recorder.step() as step:
                step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
            optimizer.step()
    assert read(tmp_path / "run", "steps")["step"].to_list() == [0, 1]


class Broken(Instrument):
    name = "broken"
    columns = ()

    def after_backward(self, step: object) -> None:
        raise ZeroDivisionError("by the instrument")


@pytest.fixture
def with_broken_instrument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.recorder.PRESETS", {**PRESETS, "economy": (Broken, GradientNorms)})


@pytest.mark.usefixtures("with_broken_instrument")
def test_a_failing_instrument_is_switched_off_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    training = train(tmp_path / "run", model(), [batch() for _ in range(4)], nn.CrossEntropyLoss(), strict=False)
    assert training.errors() == ["measuring broken, which is switched off: ZeroDivisionError: by the instrument"]
    assert training.steps["grad_norm"].is_not_null().all()
    assert len([r for r in caplog.records if "by the instrument" in r.message]) == 1


@pytest.mark.usefixtures("with_broken_instrument")
def test_strict_raises_what_went_wrong(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="by the instrument"):
        train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss(), strict=True)


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_reads_from_the_device_between_drains(preset: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, foreach=True)
    loss_fn = nn.CrossEntropyLoss()
    inputs, targets = torch.randn(8, 1, 4, 4), torch.randint(0, 3, (8,))
    with Recorder(tmp_path / "run", net, optimizer, loss_fn, preset=preset, strict=True) as recorder:
        for _ in range(20):
            with no_sync():
                optimizer.zero_grad()
                with recorder.step() as step:
                    step.backward(loss_fn(net(inputs), targets))
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                recorder.log("train", loss=torch.ones(()))
    assert len(read(tmp_path / "run", "steps")) == 20


def test_instruments_may_have_intervals_of_their_own_or_be_left_out(tmp_path: Path) -> None:
    settings = {"dense_steps": 0, "every": 8, "instruments": {"alpha": 3, "individual-gradients": None}}
    training = train(tmp_path / "run", model(), [batch() for _ in range(20)], nn.CrossEntropyLoss(), **settings)
    steps = training.steps
    having = {c: [s for s, v in zip(steps["step"], steps[c], strict=True) if v is not None] for c in steps.columns}
    assert having["start_slope"] == list(range(0, 20, 3))
    assert having["end_slope"] == list(range(1, 20, 3))
    assert having["input_mean"] == [0, 8, 16]
    assert having["grad_var"] == []
    assert set(having["start_slope"]) <= set(having["loss_var"])
    assert set(having["start_slope"]) <= set(having["update_norm"])


@pytest.mark.parametrize(
    ("instruments", "sentence"),
    [({"alhpa": 1}, "no instrument 'alhpa'; it has gradient-norms"), ({"alpha": 0}, "'alpha' must be at least 1")],
)
def test_unknown_instruments_and_intervals_are_refused(
    instruments: dict[str, int], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss(), instruments=instruments)
