"""Attention that takes torch's fast path without us takes it with us: what comes out is the same to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.audits import hooks
from support.trainings import read
from torch import Tensor, nn
from torch.nn.modules import module as all_modules

from recorder import Recorder
from recorder.fast_paths import may_be_fast

STEPS = 4


def layer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


BODIES: dict[str, Callable[[], nn.Module]] = {
    "layer": layer,
    "encoder": lambda: nn.TransformerEncoder(layer(), 2),
    "attention": Attention,
}


class Frozen(nn.Module):
    """A frozen body in evaluation mode under a head that learns."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body.eval().requires_grad_(False), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)).mean((1, 2))

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.body.eval()
        return self


class Learning(Frozen):
    def __init__(self, body: nn.Module) -> None:
        super().__init__(body)
        self.body.requires_grad_(True)

    def train(self, mode: bool = True) -> Frozen:
        return nn.Module.train(self, mode)


def learn(model: nn.Module, run: Path | None, look: Callable[[nn.Module, Tensor], object], **options: Any) -> list[Any]:
    """What the model gave at each step, and at each look at it within the step's block."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    found: list[Any] = []

    def pass_on(x: Tensor, backward: Callable[[Tensor], None]) -> None:
        found.append(look(model, x))
        loss = (model(x) - 1).square().mean()
        found.append(loss.detach().clone())
        backward(loss)

    torch.manual_seed(1)  # of the dropout as well
    inputs = torch.randn(STEPS, 8, 5, 16)
    if run is None:
        for x in inputs:
            optimizer.zero_grad()
            pass_on(x, lambda loss: loss.backward())
            optimizer.step()
        return found
    with Recorder(run, model, optimizer, strict=True, **options) as recorder:
        for x in inputs:
            optimizer.zero_grad()
            with recorder.step() as step:
                pass_on(x, step.backward)
            optimizer.step()
    return found


def nothing(model: nn.Module, x: Tensor) -> None:
    return None


def evaluation(model: nn.Module, x: Tensor) -> Tensor:
    model.eval()
    with torch.no_grad():
        seen = model(x)
    model.train()
    return seen


def inference(model: nn.Module, x: Tensor) -> Tensor:
    model.eval()
    with torch.inference_mode():
        seen = model.body(x)
    model.train()
    return seen.sum()


@pytest.mark.parametrize("preset", ["basic", "economy"])
@pytest.mark.parametrize("look", [nothing, evaluation, inference])
@pytest.mark.parametrize("kind", [Frozen, Learning])
@pytest.mark.parametrize("body", BODIES)
def test_the_same_numbers_with_and_without_a_recorder(
    body: str, kind: type[Frozen], look: Callable[..., object], preset: str, tmp_path: Path
) -> None:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return kind(BODIES[body]())

    plain, watched = made(), made()
    expected = learn(plain, None, look)
    before = hooks(watched), len(all_modules._global_forward_hooks), len(all_modules._global_forward_pre_hooks)
    found = learn(watched, tmp_path, look, preset=preset)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True) if a is not None)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    after = hooks(watched), len(all_modules._global_forward_hooks), len(all_modules._global_forward_pre_hooks)
    assert after == before
    if preset == "economy":
        assert read(tmp_path, "steps")["loss_var"].null_count() == STEPS  # a formula of our own: no loss is called
        assert read(tmp_path, "steps")["training_share"].null_count() == 0


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_fails_inside_leaves_nothing_behind(error: type[BaseException], tmp_path: Path) -> None:
    model = Frozen(layer())

    def fail(*_: object) -> None:
        raise error

    handle = model.body.linear1.register_forward_pre_hook(fail)
    before = hooks(model)
    with pytest.raises(error):
        learn(model, tmp_path, nothing)
    assert hooks(model) == before
    assert torch.overrides._get_current_function_mode() is None
    handle.remove()
    learn(model, tmp_path / "again", nothing)


def test_a_failed_look_does_not_end_the_watch(tmp_path: Path) -> None:
    """Once the module that failed is left, hooks and mode are back: the step is measured like any other."""

    def attempt(model: nn.Module, x: Tensor) -> None:
        with pytest.raises((RuntimeError, AssertionError)), torch.no_grad():
            model.body(x[:, :, :3])

    torch.manual_seed(0)
    learn(Frozen(layer()), tmp_path / "a", attempt)
    torch.manual_seed(0)
    learn(Frozen(layer()), tmp_path / "b", nothing)
    columns = [name for name in read(tmp_path / "a", "steps").columns if name not in ("time", "duration")]
    assert read(tmp_path / "a", "steps")[columns].equals(read(tmp_path / "b", "steps")[columns])


def test_a_mode_of_the_user_above_ours_stays_where_it_is(tmp_path: Path) -> None:
    class Mine(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    def look(model: nn.Module, x: Tensor) -> Tensor:
        with Mine() as mine, torch.no_grad():
            seen = model(x)
            assert torch.overrides._get_current_function_mode() is mine
        return seen

    torch.manual_seed(0)
    expected = learn(Frozen(layer()), None, look)
    torch.manual_seed(0)
    found = learn(Frozen(layer()), tmp_path, look)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_modules_that_cannot_take_it_are_watched() -> None:
    learning = layer()
    assert not may_be_fast(learning)
    assert not may_be_fast(learning.eval())
    assert may_be_fast(learning.requires_grad_(False))
    assert not may_be_fast(nn.Linear(2, 2).eval().requires_grad_(False))
    with torch.no_grad():
        assert may_be_fast(layer().eval())


def test_models_without_attention_need_no_hook_on_all_modules(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path, model, optimizer, strict=True) as recorder, recorder.step() as step:
        assert not all_modules._global_forward_pre_hooks
        step.backward(model(torch.ones(2, 4)).sum())
