"""Graphs that may be differentiated only once, or that somebody listens to: left alone, whatever the preset."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_full_backward_hook
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from analyzer.run import open_run
from recorder import Recorder

STEPS = 3
INPUTS = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randint(0, 4, (32,), generator=torch.Generator().manual_seed(2))


class Net(nn.Module):
    """Two layers, and something between them. `seen`: what the training observes of its own backward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)
        self.seen: list[Any] = []

    def inner(self, x: Tensor) -> Tensor:
        return self.first(x).tanh()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.inner(x))
        return out


class Selective(Net):
    def inner(self, x: Tensor) -> Tensor:
        def policy(_context: Any, operation: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            saved = operation == torch.ops.aten.addmm.default
            return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

        contexts = partial(create_selective_checkpoint_contexts, policy)
        found: Tensor = checkpoint(super().inner, x, use_reentrant=False, context_fn=contexts)
        return found


class HandedOutOnce(Net):
    def inner(self, x: Tensor) -> Tensor:
        kept: dict[int, Tensor] = {}

        def pack(tensor: Tensor) -> int:
            kept[len(kept)] = tensor
            return len(kept) - 1

        with torch.autograd.graph.saved_tensors_hooks(pack, kept.pop):
            return super().inner(x)


class Freeing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x.detach()
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x = ctx.x
        del ctx.x
        return 2 * gradient + 0 * x


class Drawing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient + 0.01 * torch.from_numpy(np.random.randn(*gradient.shape)).float()


class Own(Net):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def inner(self, x: Tensor) -> Tensor:
        found: Tensor = self.function.apply(super().inner(x))
        return found


class Normalising(Net):
    """A hook on a tensor divides gradients by the largest that it has seen."""

    def inner(self, x: Tensor) -> Tensor:
        hidden = super().inner(x)
        hidden.register_hook(self.divide)
        return hidden

    def divide(self, gradient: Tensor) -> Tensor:
        self.seen.append(gradient.norm())
        return gradient / max(self.seen)


class Keeping(Net):
    def inner(self, x: Tensor) -> Tensor:
        hidden = super().inner(x)
        hidden.retain_grad()
        self.seen.append(hidden)
        return hidden


class Counting(Net):
    """Counts, in Python, how often its checkpointed part runs."""

    def inner(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(self.counted, x, use_reentrant=False)
        return found

    def counted(self, x: Tensor) -> Tensor:
        self.seen.append(1)
        return super().inner(x)


class Remembering(Net):
    """Counts in a buffer, beside one that cannot be written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.zeros(1).expand(16))
        self.register_buffer("runs", torch.zeros(()))

    def inner(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(self.counted, x, use_reentrant=False)
        return found + self.mask

    def counted(self, x: Tensor) -> Tensor:
        self.runs += 1
        return super().inner(x) * (1 + 0.01 * self.runs.detach().clone())


@contextmanager
def listening(net: Net) -> Iterator[None]:
    handle = register_module_full_backward_hook(lambda *_: net.seen.append(1))
    try:
        yield
    finally:
        handle.remove()


FRAGILE: dict[str, Callable[[], Net]] = {
    "selective checkpoints": Selective,
    "saved tensors are handed out once": HandedOutOnce,
    "a function frees what it saved": lambda: Own(Freeing),
    "a function draws from numpy": lambda: Own(Drawing),
    "a hook on a tensor": Normalising,
    "a tensor that keeps its gradient": Keeping,
    "hooks on all modules": Net,
    "a buffer that cannot be written": Remembering,
    "a checkpoint that counts": Counting,
}


def trained(name: str, where: Path | None, preset: str) -> tuple[list[Tensor], list[Any]]:
    """Parameters and buffers after some steps, and what the training saw."""
    torch.manual_seed(0)
    np.random.seed(0)
    net = FRAGILE[name]()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    around = listening(net) if name == "hooks on all modules" else nullcontext()
    every: Any = {"every": 1, "instruments": dict.fromkeys(("hessian-trace",), 1) if preset == "full" else {}}
    recorder = Recorder(where, net, optimizer, preset=preset, strict=True, **every) if where else None
    with around, recorder or nullcontext():
        for _ in range(STEPS):
            optimizer.zero_grad()
            with recorder.step() if recorder else nullcontext() as step:
                loss = functional.cross_entropy(net(INPUTS), TARGETS)
                step.backward(loss) if step else loss.backward()
            optimizer.step()
    seen = [item.grad if isinstance(item, Tensor) and item.requires_grad else item for item in net.seen]
    return [*net.state_dict().values()], seen


@pytest.mark.parametrize("preset", ["basic", "economy", "full"])
@pytest.mark.parametrize("name", FRAGILE)
def test_they_are_left_alone(tmp_path: Path, name: str, preset: str) -> None:
    if name == "a checkpoint that counts" and preset == "full":
        pytest.skip("curvature runs checkpointed layers once more, which only their own Python can notice")
    (values, seen), (expected, own) = trained(name, tmp_path / "run", preset), trained(name, None, preset)
    assert all(torch.equal(one, other) for one, other in zip(values, expected, strict=True))
    assert [torch.as_tensor(item).tolist() for item in seen] == [torch.as_tensor(item).tolist() for item in own]


@pytest.mark.parametrize("name", [name for name in FRAGILE if name != "a buffer that cannot be written"])
def test_it_is_said_why(tmp_path: Path, name: str) -> None:
    trained(name, tmp_path / "run", "basic")
    run = open_run(tmp_path / "run")
    assert run.frame("steps", "mixing_share")["mixing_share"].null_count() == STEPS
    assert any("steps.mixing_share" in event.detail["columns"] for event in run.events_of("not-measured"))


def recorded(where: Path, loss: Callable[[nn.Module], Tensor]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Recorder(where, net, optimizer, preset="basic") as recorder:
        for _ in range(STEPS):
            with recorder.step() as step:
                step.backward(loss(net))
            optimizer.step()
    assert open_run(where).step_count == STEPS


@pytest.mark.parametrize(
    "loss",
    [
        lambda net: (net(INPUTS) - 1.5 * net(INPUTS).detach())[TARGETS > 9].abs().mean(1).sum() + net(INPUTS).mean(),
        lambda net: functional.cross_entropy(net(INPUTS)[()], TARGETS),
        lambda net: functional.log_softmax(net(INPUTS), 1)[()].square().mean(),
    ],
    ids=["the mean of nothing", "an empty index", "an empty index of logarithms"],
)
def test_odd_formulas_are_no_reason_to_fail(tmp_path: Path, loss: Callable[[nn.Module], Tensor]) -> None:
    recorded(tmp_path / "run", loss)


def test_sums_of_sums_are_looked_at_once(tmp_path: Path) -> None:
    """A loss that is reached on two to the power of sixty ways."""

    def loss(net: nn.Module) -> Tensor:
        total = functional.cross_entropy(net(INPUTS), TARGETS)
        other = net(INPUTS).pow(4).mean()
        for _ in range(60):
            other = other + other
        return total + 1e-30 * other

    recorded(tmp_path / "run", loss)


def test_a_step_that_another_thread_entered(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Recorder(tmp_path / "run", net, optimizer, preset="basic") as recorder:
        step = recorder.step()
        thread = threading.Thread(target=step.__enter__)
        thread.start()
        thread.join()
        step.backward(functional.cross_entropy(net(INPUTS), TARGETS))
        step.__exit__(None, None, None)
        optimizer.step()


def test_a_mode_of_the_users_stays_where_it_was(tmp_path: Path) -> None:
    class Watching(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return func(*args, **(kwargs or {}))

    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Recorder(tmp_path / "run", net, optimizer, preset="basic", strict=True) as recorder:
        with recorder.step() as step:
            mode = Watching()
            mode.__enter__()
            step.backward(functional.cross_entropy(net(INPUTS), TARGETS))
        before = mode.calls
        torch.ones(2).sum()
        assert mode.calls > before
        mode.__exit__(None, None, None)
        optimizer.step()
    assert torch.overrides._get_current_function_mode_stack() == []
