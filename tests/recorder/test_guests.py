"""The recorder as a guest: what users do around it while it looks, and that none of it goes wrong."""

from __future__ import annotations

import copy
import io
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from support.trainings import read, train
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

from recorder import Recorder


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(16, 6), torch.randint(0, 3, (16,))


def test_the_model_can_be_copied_and_saved_while_it_is_watched(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, preset="full", strict=True) as recorder:
        with recorder.step() as step:
            x, y = batch()
            step.backward(F.cross_entropy(net(x), y))
            twin = copy.deepcopy(net)
            torch.save(net, io.BytesIO())
            assert torch.equal(twin.eval()(x), net.eval()(x))
            net.train()
        optimizer.step()
        twin(x)
    assert len(read(tmp_path / "run", "modules")) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_leaves_the_run_to_its_parent(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        with recorder.step() as step:
            step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
        optimizer.step()
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        began = time.monotonic()
        child.start()
        time.sleep(0.3)
        child.terminate()
        child.join()
        assert time.monotonic() - began < 20
        assert not list((tmp_path / "run").glob("end-*"))
    assert json.loads((tmp_path / "run" / "end-a00-r000.json").read_text())["status"] == "completed"


class Checkpointed(nn.Module):
    """Its middle runs again in every backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.again = nn.Sequential(nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.again, self.inner(x), use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("preset", ["economy", "full"])
def test_layers_that_run_again_leave_no_trace(preset: str, reentrant: bool, tmp_path: Path) -> None:
    def trained(where: Path | None) -> list[Tensor]:
        torch.manual_seed(0)
        net = Checkpointed(reentrant)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with Recorder(where, net, optimizer, preset=preset, strict=True) if where else nullcontext() as recorder:
            for _ in range(3):
                x, y = batch()
                optimizer.zero_grad()
                with recorder.step() if recorder else nullcontext() as step:
                    loss = F.cross_entropy(net(x), y)
                    step.backward(loss) if step else loss.backward()
                optimizer.step()
        return [*net.state_dict().values(), torch.get_rng_state()]

    pairs = zip(trained(tmp_path / "run"), trained(None), strict=True)
    assert all(torch.equal(found, expected) for found, expected in pairs)
    if preset == "full":
        steps, events = read(tmp_path / "run", "steps"), read(tmp_path / "run", "events")
        told = any("use_reentrant" in message for message in events["message"])
        assert (steps["hess_trace"][0] is None, steps["tic_sum"][0] is None, told) == (reentrant,) * 3


class Scaler:
    """A scaler of somebody's own."""

    def scale(self, loss: Tensor) -> Tensor:
        return loss * 8

    def is_enabled(self) -> bool:
        return True


def test_a_foreign_scaler_s_factor_is_found(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    x, y = batch()
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for scaler in (None, Scaler()):
            optimizer.zero_grad()
            with recorder.step() as step:
                step.backward(F.cross_entropy(net(x), y), scaler=scaler)
            optimizer.step()
    rows = read(tmp_path / "run", "steps").to_dicts()
    assert rows[1]["loss_scale"] == pytest.approx(8.0)
    assert rows[1]["grad_norm"] == pytest.approx(rows[0]["grad_norm"], rel=1e-4)


def test_a_step_without_its_block_or_within_another_leaves_nothing_behind(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    modes = torch._C._len_torch_function_stack()
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(3):
            step = recorder.step()
            step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
            optimizer.step()
        with recorder.step(), recorder.step() as step:
            step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
        optimizer.step()
        assert torch._C._len_torch_function_stack() == modes
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert read(tmp_path / "run", "steps")["step"].to_list() == [0, 1, 2, 3]


class Lookahead(torch.optim.Optimizer):
    """Wraps an optimizer without initialising its own base, as many do."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner, self.param_groups, self.state = inner, inner.param_groups, inner.state

    def step(self, closure: Callable[[], float] | None = None) -> Any:  # type: ignore[override]
        return self.inner.step()


def test_an_optimizer_that_cannot_be_watched_is_told_and_its_steps_recorded(tmp_path: Path) -> None:
    net = model()
    optimizer = Lookahead(torch.optim.SGD(net.parameters(), lr=0.1))
    optimizer.param_groups[0]["schedule"] = "auto"
    with Recorder(tmp_path / "run", net, optimizer) as recorder:
        for _ in range(2):
            net.zero_grad()
            with recorder.step() as step:
                step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
            optimizer.step()
    assert read(tmp_path / "run", "steps")["grad_norm"].is_not_null().all()
    assert any("watching the steps of Lookahead" in m for m in read(tmp_path / "run", "events")["message"])


def test_gradients_that_others_ask_for_are_none_of_the_step(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(3):
            x, y = torch.randn(8, 6, dtype=torch.float64, requires_grad=True), torch.randint(0, 3, (8,))
            optimizer.zero_grad()
            with recorder.step() as step:
                out = net(x)
                torch.autograd.grad(out.sum(), x, retain_graph=True)
                step.backward(F.cross_entropy(out, y))
            optimizer.step()
    steps = read(tmp_path / "run", "steps")[1:]
    assert steps["end_slope"].to_list() == pytest.approx(steps["end_slope_total"].to_list(), rel=1e-9)
    assert steps["inner_mean"].to_list() == pytest.approx((steps["grad_norm"] ** 2).to_list(), rel=1e-9)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "change",
    [
        lambda layer: nn.utils.weight_norm(layer),
        lambda layer: nn.utils.spectral_norm(layer),
        lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    ],
    ids=["weight norm", "spectral norm", "pruning"],
)
def test_weights_made_by_hooks_are_left_out_with_the_reason(change: Callable[[nn.Module], Any], tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    change(net[0])
    training = train(tmp_path / "run", net, [batch() for _ in range(3)], nn.CrossEntropyLoss())
    assert training.steps["start_slope"].is_null().all()
    assert training.steps["grad_var"].is_null().all()
    assert any("no individual gradients for" in reason for reason in training.reasons())
    assert training.errors() == []


def test_hooks_of_the_user_do_not_see_modules_run_again(tmp_path: Path) -> None:
    net = nn.Sequential(nn.LSTM(6, 8, batch_first=True))
    seen: list[int] = []
    net[0].register_forward_hook(lambda *_: seen.append(1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer, strict=True) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            with recorder.step() as step:
                out = net(torch.randn(4, 5, 6))[0]
                step.backward(F.mse_loss(out, torch.zeros_like(out)))
            optimizer.step()
    assert len(seen) == 3
    assert read(tmp_path / "run", "steps")["start_slope"].is_not_null().all()


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_odd_hyperparameters_do_not_cost_the_run_file(tmp_path: Path) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    hparams = {
        "odd": Odd(),
        "complex": torch.tensor(1j),
        "loop": loop,
        "huge": 10**5000,
        "nan": float("nan"),
        3: {"a": (1,)},
    }
    train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss(), hparams=hparams, target={("a", "b"): 1.0})
    written = json.loads((tmp_path / "run" / "run-a00.json").read_text())["hparams"]
    assert written["odd"] == "<Odd>"
    assert written["nan"] == "nan"
    assert written["3"] == {"a": [1]}


@pytest.mark.parametrize("value", [torch.ones(2), None, "abc", [1.0], 10**400], ids=repr)
def test_a_metric_that_is_no_number_is_told_and_left_out(value: Any, tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer) as recorder:
        recorder.log("valid", wrong=value, good=0.5)
        recorder.log("valid", step="12", late=1.0)  # type: ignore[arg-type]
        with recorder.step() as step:
            step.backward(F.cross_entropy(net(batch()[0]), batch()[1]))
    assert read(tmp_path / "run", "metrics")["name"].to_list() == ["good"]
    messages = read(tmp_path / "run", "events")["message"].to_list()
    assert any(m.startswith("logging 'wrong'") for m in messages)
    assert any(m.startswith("logging 'late'") for m in messages)


def test_resuming_goes_on_with_the_run_of_the_shards_where_the_run_file_is_torn(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss())
    run_id = json.loads((tmp_path / "run" / "run-a00.json").read_text())["run_id"]
    (tmp_path / "run" / "run-a00.json").write_text("{")
    train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss(), resume=True)
    assert json.loads((tmp_path / "run" / "run-a01.json").read_text())["run_id"] == run_id


def test_shards_without_a_run_file_are_a_run_too(tmp_path: Path) -> None:
    train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss())
    (tmp_path / "run" / "run-a00.json").unlink()
    with pytest.raises(FileExistsError, match="holds a run already"):
        train(tmp_path / "run", model(), [batch()], nn.CrossEntropyLoss())


def test_whoever_calls_loss_backward_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", net, optimizer) as recorder:
        for _ in range(5):
            with recorder.step():
                F.cross_entropy(net(batch()[0]), batch()[1]).backward()
            optimizer.step()
    assert len([r for r in caplog.records if "call step.backward(loss)" in r.message]) == 1
    assert any("call step.backward(loss)" in m for m in read(tmp_path / "run", "events")["message"])


def test_an_optimizer_is_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer or several, not MSELoss"):
        Recorder(tmp_path / "run", model(), nn.MSELoss())  # type: ignore[arg-type]
