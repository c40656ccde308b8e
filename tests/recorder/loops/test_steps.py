"""Every way to make a step: values equal a loop over samples, and the training is the same without us."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.loops import Log, fly_both, one_by_one
from support.trainings import read
from support.truth import check_null, check_step, check_values
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

N = 6
STEPS = 4
Batch = tuple[Tensor, Tensor]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def batch(n: int = N) -> Batch:
    return torch.randn(n, 4, dtype=torch.float64), torch.randint(3, (n,))


def classify(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def take(log: Log, data: Batch, share: float = 1.0, **options: Any) -> Callable[[Callable[..., None]], None]:
    """Differentiate the loss of a batch within a step, or a share of it."""

    def loss(model: nn.Module, data: Batch) -> Tensor:
        return classify(model, data) * share

    return lambda backward: backward(loss(log.model, data), one_by_one(loss, data), **options)


def plain(
    log: Log, steps: int = STEPS, sizes: Iterable[int] = (), before: Any = None, after: Any = None, **zero: Any
) -> None:
    """The plain loop; `before` and `after` are called around the optimizer's step."""
    left = iter(sizes)
    for index in range(steps):
        log.optimizer.zero_grad(**zero)
        with log.step() as backward:
            take(log, batch(next(left, N)))(backward)
        if before:
            before(log, index)
        log.optimizer.step()
        if after:
            after(log, index)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def fly(loop: Callable[[Log], object], tmp_path: Path, optimizer: Any = sgd, model: Any = mlp, **settings: Any) -> Log:
    return fly_both(tmp_path / "run", model, optimizer, loop, **settings)


def groups(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        [
            {"params": model[0].parameters(), "lr": 0.2},
            {"params": model[2].parameters(), "lr": 0.01, "weight_decay": 0.1},
        ]
    )


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "upwards": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, maximize=True),
    "one tensor at a time": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, foreach=False),
    "foreach": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, foreach=True, amsgrad=True),
    "fused": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, fused=True),
    "fused descent": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.5, fused=True),
    "signs": lambda m: torch.optim.Rprop(m.parameters()),
    "mean squares": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01, centered=True),
    "adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=0.05),
    "averaged": lambda m: torch.optim.ASGD(m.parameters(), lr=0.05),
    "groups": groups,
    "a rate of zero": lambda m: torch.optim.SGD(m.parameters(), lr=0.0),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, tmp_path: Path) -> None:
    check_values(tmp_path / "run", fly(plain, tmp_path, OPTIMIZERS[name]))


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.5, total_steps=STEPS + 1),
    "restarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedules_of_the_rate(name: str, tmp_path: Path) -> None:
    rates: list[float] = []

    def loop(log: Log) -> None:
        schedule = SCHEDULERS[name](log.optimizer)
        rates.clear()

        def step(log: Log, index: int) -> None:
            rates.append(schedule.get_last_lr()[0])
            schedule.step()

        plain(log, after=step)

    check_values(tmp_path / "run", fly(loop, tmp_path, OPTIMIZERS["momentum"]))
    assert [rate for (rate,) in read(tmp_path / "run", "steps")["lr"].to_list()] == rates


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "norm": lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.05),
    "value": lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.01),
    "noise": lambda model: [p.grad.add_(torch.randn_like(p.grad)) for p in model.parameters()],
    "centred": lambda model: [p.grad.sub_(p.grad.mean()) for p in model.parameters()],
    "forgotten": lambda model: setattr(model[0].weight, "grad", None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_gradients_changed_before_the_step(name: str, tmp_path: Path) -> None:
    """Values are of the gradients that the passes made."""
    log = fly(lambda log: plain(log, before=lambda log, _: CHANGES[name](log.model)), tmp_path)
    check_values(tmp_path / "run", log)
    assert read(tmp_path / "run", "steps")["grad_norm_clipped"].is_not_null().all()


@pytest.mark.parametrize("change", [lambda g: -g, lambda g: g.clamp(-0.01, 0.01), lambda g: 0.9 * g])
@pytest.mark.parametrize("late", [True, False])
def test_gradients_changed_by_hooks_on_parameters(change: Any, late: bool, tmp_path: Path) -> None:
    def model() -> nn.Module:
        net = mlp()

        def accumulated(p: Tensor) -> None:
            p.grad = change(p.grad)

        for p in net.parameters():
            p.register_post_accumulate_grad_hook(accumulated) if late else p.register_hook(change)
        return net

    fly(plain, tmp_path, model=model)
    check_null(tmp_path / "run", "do not add up")


@pytest.mark.parametrize("clear", [{}, {"set_to_none": False}])
@pytest.mark.parametrize("sizes", [(3, 3), (4, 1, 2)], ids=str)
def test_accumulation(sizes: tuple[int, ...], clear: dict[str, bool], tmp_path: Path) -> None:
    """Every micro-batch with its own weight in the sum."""

    def loop(log: Log) -> None:
        for _ in range(STEPS):
            log.optimizer.zero_grad(**clear)
            with log.step() as backward:
                for size in sizes:
                    take(log, batch(size), 1 / len(sizes))(backward)
            log.optimizer.step()

    check_values(tmp_path / "run", fly(loop, tmp_path, OPTIMIZERS["momentum"]))
    assert read(tmp_path / "run", "steps")["micro_batches"].to_list() == [len(sizes)] * STEPS


def test_zeros_in_place_of_none(tmp_path: Path) -> None:
    check_values(tmp_path / "run", fly(lambda log: plain(log, set_to_none=False), tmp_path))


def test_gradients_that_are_never_cleared(tmp_path: Path) -> None:
    def loop(log: Log) -> None:
        for _ in range(STEPS):
            with log.step() as backward:
                take(log, batch())(backward)
            log.optimizer.step()

    check_values(tmp_path / "run", fly(loop, tmp_path))


def test_several_backward_passes_of_one_forward_pass(tmp_path: Path) -> None:
    def loop(log: Log) -> None:
        for _ in range(STEPS):
            x, y = batch()
            log.optimizer.zero_grad()
            with log.step() as backward:
                out = log.model(x)
                backward(F.cross_entropy(out, y), backward=lambda loss: loss.backward(retain_graph=True))
                backward(0.1 * F.mse_loss(out, F.one_hot(y, 3).double()))
            log.optimizer.step()

    fly(loop, tmp_path)
    check_null(tmp_path / "run", "several backward passes went through one forward pass")


def test_sharpness_aware_steps(tmp_path: Path) -> None:
    """The gradient of the second pass alone, at parameters that are moved meanwhile."""

    def loop(log: Log) -> None:
        for _ in range(STEPS):
            data, before = batch(), log.values()
            with log.step() as backward:
                log.optimizer.zero_grad()
                take(log, data)(backward)
                with torch.no_grad():
                    for p in log.model.parameters():
                        p.add_(0.05 * p.grad)
                log.optimizer.zero_grad()
                take(log, data)(backward)
            with torch.no_grad():
                for p, value in zip(log.model.parameters(), before, strict=True):
                    p.copy_(value)
            log.optimizer.step()

    fly(loop, tmp_path)
    check_null(tmp_path / "run", "")


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.SGD])
def test_closures(kind: Any, tmp_path: Path) -> None:
    """The first evaluation is recorded, and the whole update."""

    def loop(log: Log) -> None:
        for _ in range(STEPS):
            data, counts = batch(), iter([True])
            with log.step() as backward:

                def closure(data: Batch = data, backward: Any = backward, counts: Any = counts) -> Tensor:
                    log.optimizer.zero_grad()
                    loss = classify(log.model, data)
                    backward(loss, one_by_one(classify, data) if next(counts, False) else None)
                    return loss

                log.optimizer.step(closure)

    options = {"max_iter": 3} if kind is torch.optim.LBFGS else {}
    log = fly(loop, tmp_path, lambda model: kind(model.parameters(), lr=0.1, **options))
    for moment in log.moments:
        moment.passes = moment.passes[:1]
    check_values(tmp_path / "run", log)


class Adversaries(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4))
        self.critic = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x: Tensor, made: Tensor) -> Tensor:
        """Of a real example where one is given, else of one that is made."""
        return self.critic(torch.where(made, self.generator(x[:, :2]), x))


def test_optimizers_in_turn(tmp_path: Path) -> None:
    def judge(model: nn.Module, data: tuple[Tensor, ...]) -> Tensor:
        x, made, wanted = data
        return F.binary_cross_entropy_with_logits(model(x, made), wanted)

    def loop(log: Log) -> None:
        critics, generators = log.optimizers
        for index in range(6):
            optimizer = (critics, generators)[index % 2]
            made = torch.arange(N).unsqueeze(1) < (3 if optimizer is critics else N)
            wanted = (~made).double() if optimizer is critics else torch.ones(N, 1, dtype=torch.float64)
            data = torch.randn(N, 4, dtype=torch.float64), made, wanted
            optimizer.zero_grad()
            with log.step() as backward:
                backward(judge(log.model, data), one_by_one(judge, data))
            optimizer.step()

    def optimizers(model: Any) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(part.parameters(), lr=0.05) for part in (model.critic, model.generator)]

    log = fly(loop, tmp_path, optimizers, lambda: Adversaries().double())
    check_values(tmp_path / "run", log)
    assert read(tmp_path / "run", "steps")["optimizer"].to_list() == [0, 1] * 3


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("clear", [{}, {"set_to_none": False}])
def test_freezing_and_thawing(layer: int, clear: dict[str, bool], tmp_path: Path) -> None:
    """What does not move is in no sum; what joins is looked at anew."""

    def loop(log: Log) -> None:
        def switch(log: Log, index: int) -> None:
            if index in (1, 3):
                log.model[layer].requires_grad_(requires_grad=index == 3)

        plain(log, 7, after=switch, **clear)

    def check(path: Path, log: Log) -> None:
        check_values(path, log, only=[0, 1])
        log.model[layer].requires_grad_(requires_grad=False)
        check_values(path, log, only=[2, 3])
        log.model[layer].requires_grad_(requires_grad=True)
        check_values(path, log, only=[6])

    check(tmp_path / "run", fly(loop, tmp_path))


def test_a_group_that_is_added_later(tmp_path: Path) -> None:
    def join(log: Log, index: int) -> None:
        if index == 1:
            log.optimizer.add_param_group({"params": list(log.model[0].parameters()), "lr": 0.2})

    log = fly(lambda log: plain(log, 6, after=join), tmp_path, lambda m: torch.optim.SGD(m[2].parameters(), lr=0.1))
    check_values(tmp_path / "run", log, only=[5])


@pytest.mark.parametrize("lazily", [True, False])
def test_lazy_modules(lazily: bool, tmp_path: Path) -> None:
    """Whose parameters take shape at the first pass, before the recorder starts or with it."""

    def model() -> nn.Module:
        net = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(3)).double()
        if not lazily:
            net(torch.zeros(1, 4, dtype=torch.float64))
        return net

    def loop(log: Log) -> None:
        if lazily:
            log.model(torch.zeros(1, 4, dtype=torch.float64))
        plain(log)

    check_values(tmp_path / "run", fly(loop, tmp_path, model=model))


def test_an_uneven_last_batch(tmp_path: Path) -> None:
    check_values(tmp_path / "run", fly(lambda log: plain(log, sizes=[6, 6, 4, 1]), tmp_path))


@pytest.mark.parametrize("within", [True, False])
def test_averages_copies_and_checkpoints_of_the_model(within: bool, tmp_path: Path) -> None:
    def keep(log: Log, twin: Any) -> None:
        twin.update_parameters(log.model)
        log.extra += [p.detach().clone() for p in copy.deepcopy(log.model).parameters()]
        saved = io.BytesIO()
        torch.save(
            {"model": log.model.state_dict(), "optimizer": log.optimizer.state_dict(), "whole": log.model}, saved
        )
        saved.seek(0)
        log.model.load_state_dict(torch.load(saved, weights_only=False)["model"])

    def loop(log: Log) -> None:
        twin = AveragedModel(log.model)
        for _ in range(STEPS):
            log.optimizer.zero_grad()
            with log.step() as backward:
                take(log, batch())(backward)
                if within:
                    keep(log, twin)
            log.optimizer.step()
            if not within:
                keep(log, twin)

    check_values(tmp_path / "run", fly(loop, tmp_path))


@pytest.mark.parametrize("settings", [{}, {"mode": "overfit-batch"}], ids=["train", "overfit-batch"])
def test_validation_and_metrics_in_between(settings: dict[str, str], tmp_path: Path) -> None:
    held = batch()

    def validate(log: Log, index: int) -> None:
        log.model.eval()
        with log.recorder.evaluate("valid"), torch.no_grad():
            loss = classify(log.model, batch())
        log.model.train()
        log.recorder.log("valid", loss=loss, epoch=index)
        log.extra.append(loss)

    def loop(log: Log) -> None:
        for index in range(STEPS):
            log.optimizer.zero_grad()
            with log.step() as backward:
                take(log, held)(backward)
            log.optimizer.step()
            validate(log, index)

    log = fly(loop, tmp_path, **settings)
    check_values(tmp_path / "run", log)
    found = read(tmp_path / "run", "metrics")["value"].to_list()
    assert found == [loss.item() for loss in log.extra]


def test_a_run_that_is_resumed(tmp_path: Path) -> None:
    """Values of the second attempt are as good as those of the first, from its first step on."""
    log = fly(plain, tmp_path)
    check_values(tmp_path / "run", log)
    again = fly_both(tmp_path / "run", mlp, sgd, plain, resume=True)
    steps = read(tmp_path / "run", "steps")
    assert steps["step"].to_list() == list(range(2 * STEPS))
    assert steps["end_slope"][STEPS] is None
    again.moments = log.moments + again.moments
    for index in range(STEPS + 1, 2 * STEPS):
        check_step(tmp_path / "run", again, index, 1e-9)


def test_a_step_that_blows_up(tmp_path: Path) -> None:
    """Numbers that are none stay what they are, and what comes before them what it was."""

    def blow(log: Log, index: int) -> None:
        if index == 2:
            with torch.no_grad():
                log.model[0].weight[0, 0] = math.nan

    log = fly(lambda log: plain(log, 5, after=blow), tmp_path)
    check_values(tmp_path / "run", log, only=[0, 1, 2])
    steps = read(tmp_path / "run", "steps")
    for column in ("start_slope", "grad_var", "inner_var"):
        values = steps[column][3:].to_list()
        assert all(value is None or not math.isfinite(value) for value in values), column
