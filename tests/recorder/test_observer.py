"""The same seed gives the same weights, losses and random numbers, bit by bit, with the recorder and without it."""

from __future__ import annotations

import gc
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from recorder import Recorder
from recorder.instruments import PRESETS

STEPS = 50
LOSS = nn.CrossEntropyLoss()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout2d(0.2),
        nn.Conv2d(4, 4, 3, stride=2), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 10),
    )  # fmt: skip


class Attention(nn.Module):
    """Modules that are projected by running them again, dropout included, and parameters that no module owns alone."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(8, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(self.block(images.squeeze(1) + self.position)).mean(1))


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.05),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3),
}


@dataclass(frozen=True)
class Outcome:
    """All that a training leaves behind, as bytes."""

    losses: list[bytes]
    validation: list[bytes]
    model: dict[str, bytes]
    gradients: dict[str, bytes | None]
    optimizer: list[bytes]
    random: tuple[Any, ...]


def raw(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().numpy().tobytes()


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def outcome(model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[Tensor], valid: list[Tensor]) -> Outcome:
    return Outcome(
        [raw(loss) for loss in losses],
        [raw(loss) for loss in valid],
        {name: raw(tensor) for name, tensor in model.state_dict().items()},
        {name: None if p.grad is None else raw(p.grad) for name, p in model.named_parameters()},
        [raw(tensor) for tensor in tensors_in(optimizer.state_dict()["state"])],
        (raw(torch.get_rng_state()), random.getstate(), str(np.random.get_state())),
    )


def seed() -> None:
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)


def batch(size: int = 12) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(size, 1, 8, 8)
    return inputs, inputs.flatten(1)[:, :10].argmax(1)


@contextmanager
def recorded(where: Path | None, *of: Any, **options: Any) -> Iterator[Recorder | None]:
    """A recorder that raises whatever goes wrong inside it, or none."""
    if where is None:
        yield None
    else:
        with Recorder(where, *of, strict=True, dense_steps=10, every=3, **options) as recorder:
            yield recorder


def plain_loop(
    recorder: Recorder | None, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[list[Tensor], ...]:
    """Clips, validates and logs now and then; the optimizer steps outside the recorder's step."""
    losses, valid = [], []
    for index in range(STEPS):
        inputs, targets = batch()
        optimizer.zero_grad()
        with recorder.step() if recorder else nullcontext() as step:
            loss = LOSS(model(inputs), targets)
            step.backward(loss) if step else loss.backward()
        if index % 5 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.detach())
        if index % 20 == 5:
            model.eval()
            with recorder.evaluate("valid") if recorder else nullcontext(), torch.no_grad():
                valid.append(LOSS(model(inputs), targets))
            model.train()
            if recorder:
                recorder.log("valid", loss=valid[-1], epoch=index / 10)
    return losses, valid


def train(build: Callable[[], nn.Module], optimizer: str, where: Path | None, preset: str = "economy") -> Outcome:
    seed()
    model = build()
    chosen = OPTIMIZERS[optimizer](model)
    with recorded(where, model, chosen, LOSS, preset=preset) as recorder:
        losses, valid = plain_loop(recorder, model, chosen)
    return outcome(model, chosen, losses, valid)


def rows(where: Path, table: str) -> list[dict[str, Any]]:
    return [row for shard in sorted((where / table).glob("*.parquet")) for row in pq.read_table(shard).to_pylist()]


@pytest.mark.parametrize("build", [mlp, cnn, Attention])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_the_same_bit_by_bit(build: Callable[[], nn.Module], optimizer: str, tmp_path: Path) -> None:
    plain = train(build, optimizer, None)
    assert len(set(plain.losses)) == STEPS, "it does train"
    for preset in PRESETS:
        assert train(build, optimizer, tmp_path / preset, preset) == plain
        assert len(rows(tmp_path / preset, "steps")) == STEPS
        assert not [row for row in rows(tmp_path / preset, "events") if row["kind"] in ("error", "lost")]


@pytest.mark.parametrize("build", [mlp, cnn])
def test_accumulated_micro_batches_are_the_same(build: Callable[[], nn.Module], tmp_path: Path) -> None:
    def accumulate(where: Path | None) -> Outcome:
        seed()
        model = build()
        optimizer = OPTIMIZERS["momentum"](model)
        losses = []
        with recorded(where, model, optimizer, LOSS) as recorder:
            for _ in range(STEPS // 2):
                with recorder.step() if recorder else nullcontext() as step:
                    for _ in range(2):
                        inputs, targets = batch(6)
                        loss = LOSS(model(inputs), targets) / 2
                        step.backward(loss) if step else loss.backward()
                        losses.append(loss.detach())
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=False)
        return outcome(model, optimizer, losses, [])

    assert accumulate(tmp_path / "run") == accumulate(None)
    assert [row["micro_batches"] for row in rows(tmp_path / "run", "steps")] == [2] * (STEPS // 2)


def test_a_closure_is_evaluated_the_same(tmp_path: Path) -> None:
    def minimise(where: Path | None) -> Outcome:
        seed()
        model = mlp()
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=4)
        losses = []
        with recorded(where, model, optimizer, LOSS) as recorder:
            for _ in range(10):
                inputs, targets = batch()
                with recorder.step() if recorder else nullcontext() as step:

                    def closure(inputs: Tensor = inputs, targets: Tensor = targets, step: Any = step) -> Tensor:
                        optimizer.zero_grad()
                        loss = LOSS(model(inputs), targets)
                        step.backward(loss) if step else loss.backward()
                        losses.append(loss.detach())
                        return loss

                    optimizer.step(closure)
        return outcome(model, optimizer, losses, [])

    assert minimise(tmp_path / "run") == minimise(None)
    found = rows(tmp_path / "run", "steps")
    assert len(found) == 10
    assert all(row["evaluations"] > 1 for row in found)


def test_adversarial_training_is_the_same(tmp_path: Path) -> None:
    def play(where: Path | None) -> Outcome:
        seed()
        generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Linear(16, 8))
        critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.3), nn.Linear(16, 1))
        both = nn.ModuleDict({"generator": generator, "critic": critic})
        first = torch.optim.Adam(critic.parameters(), lr=1e-3)
        second = torch.optim.Adam(generator.parameters(), lr=1e-3)
        losses = []
        judge = nn.functional.binary_cross_entropy_with_logits
        with recorded(where, both, [first, second]) as recorder:
            for _ in range(STEPS // 2):
                real, noise = torch.randn(8, 8), torch.randn(8, 4)
                for optimizer, wanted in ((first, 0.0), (second, 1.0)):
                    optimizer.zero_grad()
                    with recorder.step() if recorder else nullcontext() as step:
                        fake = critic(generator(noise))
                        loss = judge(fake, torch.full_like(fake, wanted))
                        if optimizer is first:
                            truth = critic(real)
                            loss = loss + judge(truth, torch.ones_like(truth))
                        step.backward(loss) if step else loss.backward()
                    optimizer.step()
                    losses.append(loss.detach())
        return outcome(both, first, losses, [])

    assert play(tmp_path / "run") == play(None)
    assert [row["optimizer"] for row in rows(tmp_path / "run", "steps")] == [0, 1] * (STEPS // 2)


@dataclass(frozen=True)
class Surroundings:
    """What a recorder could leave behind in the objects it was given, and in the process."""

    modules: list[dict[str, Any]]
    parameters: list[tuple[Any, ...]]
    optimizers: list[dict[str, Any]]
    process: tuple[Any, ...]


def surroundings(model: nn.Module, *optimizers: torch.optim.Optimizer) -> Surroundings:
    hidden = ("state", "param_groups", "defaults")
    return Surroundings(
        [{name: dict(v) if isinstance(v, dict) else v for name, v in vars(m).items()} for m in model.modules()],
        [
            (id(p), p.requires_grad, sorted(vars(p)), p._backward_hooks, p._post_accumulate_grad_hooks)
            for p in model.parameters()
        ],
        [{name: str(value) for name, value in vars(o).items() if name not in hidden} for o in optimizers],
        (
            signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.excepthook, torch.is_grad_enabled(),
            torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.get_default_dtype(),
            len(torch.nn.modules.module._global_forward_hooks), len(torch.overrides._get_current_function_mode_stack()),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("build", [mlp, cnn, Attention])
@pytest.mark.parametrize("preset", PRESETS)
def test_everything_is_left_as_found(build: Callable[[], nn.Module], preset: str, tmp_path: Path) -> None:
    seed()
    model = build()
    optimizer = OPTIMIZERS["adam"](model)
    # the first step makes the optimizer's own lazily set attributes, as it would without a recorder
    LOSS(model(batch()[0]), batch()[1]).backward()
    optimizer.step()
    before = surroundings(model, optimizer)
    with recorded(tmp_path / "run", model, optimizer, LOSS, preset=preset) as recorder:
        plain_loop(recorder, model, optimizer)
    assert surroundings(model, optimizer) == before


@pytest.mark.parametrize("preset", PRESETS)
def test_hooks_are_gone_as_soon_as_a_step_is_over(preset: str, tmp_path: Path) -> None:
    model = cnn()
    optimizer = OPTIMIZERS["sgd"](model)
    hooks = [name for name in vars(model) if "hooks" in name]
    assert hooks
    with recorded(tmp_path / "run", model, optimizer, LOSS, preset=preset) as recorder:
        assert recorder is not None
        for _ in range(STEPS):
            inputs, targets = batch()
            with recorder.step() as step:
                step.backward(LOSS(model(inputs), targets))
            optimizer.step()
            assert not [m for m in model.modules() for name in hooks if getattr(m, name)]
            assert not [p for p in model.parameters() if p._backward_hooks]


@pytest.mark.parametrize("preset", PRESETS)
def test_hooks_are_gone_when_a_forward_pass_raises(preset: str, tmp_path: Path) -> None:
    model = cnn()
    optimizer = OPTIMIZERS["sgd"](model)
    before = surroundings(model, optimizer)

    def fail() -> None:
        with recorded(tmp_path / "run", model, optimizer, LOSS, preset=preset) as recorder:
            assert recorder is not None
            with recorder.step():
                model(torch.zeros(2, 3))

    with pytest.raises(RuntimeError, match="input"):
        fail()
    assert surroundings(model, optimizer) == before


def test_no_graph_and_no_copy_stays_behind(tmp_path: Path) -> None:
    """Graphs, gradients and copies of parameters are let go with the recorder."""
    model = mlp()
    optimizer = OPTIMIZERS["sgd"](model)
    with recorded(tmp_path / "run", model, optimizer, LOSS) as recorder:
        plain_loop(recorder, model, optimizer)
    del recorder
    gc.collect()
    alive = [o for o in gc.get_objects() if type(o) in (Tensor, nn.Parameter) and o.shape == (16, 64)]
    assert len(alive) == 2, "the weight and its gradient"


class Counting(nn.Module):
    """A loss that keeps a state and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.drop = nn.Dropout(0.5)

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        return (self.drop(outputs) - nn.functional.one_hot(targets, 10)).square().mean()


def told(where: Path | None, loss_fn: nn.Module, early: bool) -> Outcome:
    """Trains with outputs= and targets=; with `early` the loss is computed before the step begins."""
    seed()
    model = mlp()
    optimizer = OPTIMIZERS["sgd"](model)
    losses = []
    with recorded(where, model, optimizer, loss_fn) as recorder:
        for _ in range(12):
            inputs, targets = batch()
            optimizer.zero_grad()
            if early:
                outputs = model(inputs)
                loss = loss_fn(outputs, targets)
            with recorder.step() if recorder else nullcontext() as step:
                if not early:
                    outputs = model(inputs)
                    loss = loss_fn(outputs, targets)
                step.backward(loss, outputs=outputs, targets=targets) if step else loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return outcome(model, optimizer, losses, [])


@pytest.mark.parametrize("early", [True, False])
def test_a_loss_with_a_state_is_not_called_again(early: bool, tmp_path: Path) -> None:
    recorded_loss = Counting()
    assert told(tmp_path / "run", recorded_loss, early) == told(None, Counting(), early)
    assert recorded_loss.calls == 12
    assert rows(tmp_path / "run", "steps")[0]["prediction_max"] is not None


@pytest.mark.parametrize("early", [True, False])
def test_individual_losses_of_what_the_caller_tells(early: bool, tmp_path: Path) -> None:
    assert told(tmp_path / "run", LOSS, early) == told(None, LOSS, early)
    found = rows(tmp_path / "run", "steps")[0]
    seed()
    model = mlp()
    inputs, targets = batch()
    each = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
    assert found["loss_var"] == pytest.approx(each.var().item(), rel=1e-5)
