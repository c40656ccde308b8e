"""Models and trainings off the beaten track: recorded, or null with the reason; never changed, never stopped."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F  # noqa: N812
from support.nosync import no_sync
from torch import Tensor, nn

from recorder import Recorder
from recorder.directory import RunExistsError
from recorder.instruments import INSTRUMENTS

STEPS = 24


@dataclass(frozen=True)
class Case:
    """A training: what it trains, on what, and with what loss of (model, batch)."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Any]
    loss: Callable[[nn.Module, Any], Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda parameters: torch.optim.SGD(parameters, lr=0.05)
    backward: dict[str, Any] = field(default_factory=dict)


def regress(model: nn.Module, x: Tensor) -> Tensor:
    return F.mse_loss(model(x), x[..., :1])


def classify(model: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(model(x), x[:, :3].argmax(1))


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape).to(dtype)


class Lookup(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(20, 4, mode="sum", sparse=sparse)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens))


class Unused(nn.Module):
    """A layer that no pass uses, one that is frozen, and one whose parameters are scalars and empty."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.frozen.requires_grad_(requires_grad=False)
        self.scale, self.empty = nn.Parameter(torch.ones(())), nn.Parameter(torch.empty(0, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(self.used(x)) * self.scale + self.empty.sum()


class Nested(nn.Module):
    """Takes and returns mappings and tuples; the first layer is used twice, the last shares its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.out.weight = self.body.weight

    def forward(self, batch: dict[str, Any], *, scale: float) -> dict[str, Any]:
        hidden = self.body(torch.tanh(self.body(batch["inputs"][0])))
        return {"logits": (self.out(hidden) * scale, None)}


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 1, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(torch.complex64) @ self.weight).abs()


class Recurrent(nn.Module):
    """One-dimensional losses and a state that is carried on."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0][:, -1])


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return self.head(x)


class Sometimes(nn.Module):
    """Uses one of its branches, by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.branches, self.head = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.branches[int(torch.randint(3, ()))](x))


class Deep(nn.Module):
    """A graph of tens of thousands of nodes in a chain."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        for _ in range(12_000):
            y = y * 1.0
        return y


def norms_everywhere() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.GroupNorm(2, 8), nn.LayerNorm(8), nn.Linear(8, 3)
    )


def weight_normed() -> nn.Module:
    torch.nn.utils.parametrizations.weight_norm(layer := nn.Linear(4, 4))
    return nn.Sequential(
        layer, torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 3)
    )


CASES: dict[str, Case] = {
    "sparse gradients": Case(
        lambda: Lookup(sparse=True),
        lambda: torch.randint(20, (6, 5)),
        lambda model, x: F.cross_entropy(model(x), x[:, 0] % 3),
    ),
    "unused, frozen, scalar and empty": Case(Unused, numbers(6, 4), regress),
    "nested arguments and tied weights": Case(
        Nested,
        lambda: {"inputs": (torch.randn(6, 4), "x")},
        lambda model, batch: F.mse_loss(model(batch, scale=0.5)["logits"][0], batch["inputs"][0]),
    ),
    "complex": Case(Complex, numbers(6, 4), regress),
    "double": Case(lambda: nn.Linear(4, 3).double(), numbers(6, 4, dtype=torch.float64), classify),
    "bfloat16": Case(lambda: nn.Linear(4, 3).bfloat16(), numbers(6, 4, dtype=torch.bfloat16), classify),
    "recurrent": Case(Recurrent, numbers(6, 5, 4), lambda model, x: F.huber_loss(model(x), x[:, 0, :1])),
    "unregistered": Case(Listed, numbers(6, 4), classify),
    "branches by chance": Case(Sometimes, numbers(6, 4), classify),
    "a deep graph": Case(Deep, numbers(2, 4), classify),
    "norms": Case(norms_everywhere, numbers(6, 4), classify),
    "parametrized": Case(weight_normed, numbers(6, 4), classify),
    "a batch of one": Case(lambda: nn.Linear(4, 3), numbers(1, 4), classify),
    "an input without batch": Case(lambda: nn.Linear(4, 3), numbers(4), lambda model, x: F.mse_loss(model(x), x[:3])),
    "an empty batch": Case(lambda: nn.Linear(4, 3), numbers(0, 4), lambda model, x: model(x).sum()),
    "a loss of our own": Case(
        lambda: nn.Linear(4, 1), numbers(6, 4), lambda model, x: (model(x) - x[:, :1]).abs().mean()
    ),
    "losses of the samples": Case(
        lambda: nn.Linear(4, 3),
        numbers(6, 4),
        lambda model, x: F.cross_entropy(model(x), x[:, :3].argmax(1), reduction="none"),
    ),
    "a penalty": Case(
        lambda: nn.Linear(4, 3), numbers(6, 4), lambda model, x: classify(model, x) + 0.1 * model.weight.square().sum()
    ),
    "two losses": Case(
        lambda: nn.Linear(4, 3), numbers(6, 4), lambda m, x: classify(m, x) + F.mse_loss(m(x), x[:, :3])
    ),
    "a loss of NaN": Case(lambda: nn.Linear(4, 1), numbers(6, 4), lambda model, x: regress(model, x) * math.nan),
    "infinite inputs": Case(lambda: nn.Linear(4, 1), lambda: torch.full((6, 4), math.inf), regress),
    "an optimizer of its own kind": Case(
        lambda: nn.Linear(4, 3), numbers(6, 4), classify, lambda parameters: Signs(parameters, {"step_size": 0.01})
    ),
    "a rate that is a tensor": Case(
        lambda: nn.Linear(4, 3),
        numbers(6, 4),
        classify,
        lambda parameters: torch.optim.Adam(parameters, lr=torch.tensor(0.01), foreach=False, capturable=False),
    ),
    "fused": Case(
        lambda: nn.Linear(4, 3), numbers(6, 4), classify, lambda parameters: torch.optim.Adam(parameters, fused=True)
    ),
    "a graph that is kept": Case(
        lambda: nn.Linear(4, 3),
        numbers(6, 4),
        classify,
        backward={"backward": lambda loss: loss.backward(retain_graph=True)},
    ),
}


class Signs(torch.optim.Optimizer):
    """Has no rate called `lr`, and replaces the parameters' data."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = p.data - group["step_size"] * p.grad.sign()


def train(case: Case, where: Path | None, preset: str = "economy", steps: int = STEPS) -> list[bytes]:
    """Weights and losses, as bytes, after a training that raises whatever goes wrong inside the recorder."""
    torch.manual_seed(3)
    model = case.model()
    optimizer = case.optimizer(list(model.parameters()))
    left = []
    options: dict[str, Any] = {"preset": preset, "strict": True, "dense_steps": 8, "every": 3}
    with Recorder(where, model, optimizer, **options) if where else nullcontext() as recorder:
        for _ in range(steps):
            batch = case.batch()
            optimizer.zero_grad()
            with recorder.step() if recorder else nullcontext() as step:
                loss = case.loss(model, batch)
                if step:
                    step.backward(loss, **case.backward)
                else:
                    case.backward.get("backward", Tensor.backward)(loss.mean())
            optimizer.step()
            left.append(loss.detach())
    tensors = [*left, *(p.detach() for p in model.parameters()), *model.buffers(), torch.get_rng_state()]
    return [tensor.flatten().contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors]


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    return [row for shard in sorted((run / table).glob("*.parquet")) for row in pq.read_table(shard).to_pylist()]


def column(run: Path, name: str, table: str = "steps") -> list[Any]:
    return [row[name] for row in rows(run, table)]


def reasons(run: Path) -> dict[str, str]:
    details = [json.loads(row["detail"]) for row in rows(run, "events") if row["kind"] == "not-measured"]
    return {each: detail["reason"] for detail in details for each in detail["columns"]}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("preset", ["basic", "full"])
def test_an_odd_training_is_recorded_and_not_changed(name: str, preset: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(CASES[name], run, preset) == train(CASES[name], None)
    assert column(run, "step") == list(range(STEPS))
    assert None not in column(run, "loss")
    if preset == "full" and column(run, "start_slope")[4] is None:
        assert reasons(run)["steps.start_slope"], "null, and it says why"


def test_sparse_gradients_have_the_norm_of_dense_ones(tmp_path: Path) -> None:
    dense = Case(lambda: Lookup(sparse=False), CASES["sparse gradients"].batch, CASES["sparse gradients"].loss)
    train(CASES["sparse gradients"], tmp_path / "sparse")
    train(dense, tmp_path / "dense")
    for name in ("grad_norm", "update_norm"):
        found = [value for value in column(tmp_path / "sparse", name) if value is not None]
        assert found == pytest.approx(
            [value for value in column(tmp_path / "dense", name) if value is not None], rel=1e-5
        )


def test_tensors_without_a_gradient_are_null(tmp_path: Path) -> None:
    train(CASES["unused, frozen, scalar and empty"], tmp_path)
    norms = {(row["tensor"], row["step"]): row["grad_norm"] for row in rows(tmp_path, "layers")}
    assert norms["unused.weight", 0] is None
    assert norms["frozen.weight", 0] is None
    assert norms["used.weight", 0] > 0
    assert norms["empty", 0] == 0
    wiring = [json.loads(row["detail"]) for row in rows(tmp_path, "events") if row["kind"] == "wiring"][-1]["tensors"]
    assert {tensor["name"] for tensor in wiring if not tensor["reached"]} == {
        "unused.weight", "unused.bias", "frozen.weight", "frozen.bias",
    }  # fmt: skip


def test_a_model_without_parameters(tmp_path: Path) -> None:
    image = torch.zeros(3, 4, requires_grad=True)
    optimizer = torch.optim.SGD([image], lr=0.1)
    with Recorder(tmp_path, nn.ReLU(), optimizer, strict=True) as recorder:
        for _ in range(5):
            with recorder.step() as step:
                step.backward(F.mse_loss(image, torch.ones(3, 4)))
            optimizer.step()
    assert len(column(tmp_path, "loss")) == 5
    assert column(tmp_path, "loss")[-1] < column(tmp_path, "loss")[0]
    assert not (tmp_path / "layers").exists()
    manifest = json.loads((tmp_path / "run-a00.json").read_text())
    assert (manifest["tensors"], manifest["parameters"]) == ([], 0)


def test_two_thousand_parameter_tensors(tmp_path: Path) -> None:
    case = Case(lambda: nn.Sequential(*(nn.Linear(4, 4) for _ in range(1000))), numbers(6, 4), classify_wide)
    assert train(case, tmp_path / "run", steps=10) == train(case, None, steps=10)
    assert len(rows(tmp_path / "run", "layers")) == 2000 * sum(column(tmp_path / "run", "probed"))
    assert len({row["tensor"] for row in rows(tmp_path / "run", "layers")}) == 2000
    wiring = next(json.loads(row["detail"]) for row in rows(tmp_path / "run", "events") if row["kind"] == "wiring")
    assert all(tensor["reached"] and tensor["held"] and tensor["registered"] for tensor in wiring["tensors"])


def classify_wide(model: nn.Module, x: Tensor) -> Tensor:
    return F.cross_entropy(model(x), x.argmax(1))


def test_a_batch_of_one_has_no_variance(tmp_path: Path) -> None:
    train(CASES["a batch of one"], tmp_path)
    assert set(column(tmp_path, "loss_var")) == {None}
    assert column(tmp_path, "batch_size")[0] == 1


def test_a_step_without_a_backward_pass_leaves_no_row(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path, model, optimizer, strict=True) as recorder:
        for index in range(6):
            with recorder.step() as step:
                loss = regress(model, torch.randn(3, 4))
                if index % 2:
                    step.backward(loss)
            if index % 2:
                optimizer.step()
    assert column(tmp_path, "step") == [0, 1, 2]


def test_a_compiled_model_is_recorded_from_outside(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(tmp_path, compiled, optimizer, strict=True) as recorder:
        for _ in range(6):
            with recorder.step() as step:
                step.backward(classify(compiled, torch.randn(6, 4)))
            optimizer.step()
    assert all(value > 0 for value in column(tmp_path, "grad_norm"))
    assert "compiled" in reasons(tmp_path)["steps.start_slope"]
    assert "compiled" in reasons(tmp_path)["modules.normalized_over"]


def test_a_module_whose_compiled_copy_is_trained(tmp_path: Path) -> None:
    """The recorder knows only the module. Its hooks are not traced, so that the copy is not compiled at every probe."""

    def compiled_training(where: Path | None) -> tuple[list[int], list[bytes]]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        counter = torch._dynamo.testing.CompileCounter()
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
        compiled = torch.compile(model, backend=counter)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        frames = []
        options: dict[str, Any] = {"strict": True, "dense_steps": 2, "every": 3}
        with Recorder(where, model, optimizer, **options) if where else nullcontext() as recorder:
            for _ in range(16):
                with recorder.step() if recorder else nullcontext() as step:
                    loss = classify(compiled, torch.randn(6, 4))
                    step.backward(loss) if step else loss.backward()
                optimizer.step()
                frames.append(counter.frame_count)
        return frames, [p.detach().numpy().tobytes() for p in model.parameters()]

    frames, weights = compiled_training(tmp_path)
    assert weights == compiled_training(None)[1]
    assert frames[-1] <= 5, "without hooks, and with those of the first, the next two and later probed steps"
    assert frames[-1] == frames[6]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_gradient_scaler(enabled: bool, tmp_path: Path) -> None:
    def scaled(where: Path | None) -> list[bytes]:
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=enabled)
        with Recorder(where, model, optimizer, strict=True) if where else nullcontext() as recorder:
            for index in range(12):
                x = torch.randn(6, 4)
                optimizer.zero_grad()
                with recorder.step() if recorder else nullcontext() as step:
                    loss = classify(model, x) * (math.inf if index == 5 and enabled else 1.0)
                    step.backward(loss, scaler=scaler) if step else scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        return [p.detach().numpy().tobytes() for p in model.parameters()]

    assert scaled(tmp_path) == scaled(None)
    found = rows(tmp_path, "steps")
    assert [row["step"] for row in found if row["skipped"]] == ([5] if enabled else [])
    assert max(row["grad_norm"] for row in found if row["step"] != 5) < 10, "the norm is that of the true gradient"
    assert found[0]["loss_scale"] == (2.0**10 if enabled else None)


@pytest.mark.parametrize("preset", ["economy", "full"])
def test_no_host_read_between_drains(preset: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = norms_everywhere()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    options: dict[str, Any] = {"strict": True, "dense_steps": 6, "every": 4, "preset": preset}
    if preset == "full":
        options["instruments"] = {kind.name: 8 for kind in INSTRUMENTS if kind.sparse}
    with Recorder(tmp_path, model, optimizer, loss_fn, **options) as recorder:
        recorder._outlet._due = time.monotonic() + 1000
        with no_sync():
            for index in range(50):
                x = torch.randn(6, 4)
                optimizer.zero_grad()
                with recorder.step() as step:
                    step.backward(loss_fn(model(x), x[:, :3].argmax(1)))
                optimizer.step()
                if index % 10 == 0:
                    recorder.log("train", loss=x.sum())
                    with recorder.evaluate("valid"), torch.no_grad():
                        model(x)
    assert len(column(tmp_path, "loss")) == 50


def short(run: Path, steps: int, **options: Any) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(run, model, optimizer, strict=True, **options) as recorder:
        for _ in range(steps):
            with recorder.step() as step:
                step.backward(regress(model, torch.randn(3, 4)))
            optimizer.step()


def test_a_directory_that_holds_a_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    short(tmp_path, 5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunExistsError, match="resume=True") as refused:
        short(tmp_path, 5)
    assert str(tmp_path) in str(refused.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("first", "steps"), [(None, [5, 6, 7]), (3, [3, 4, 5])])
def test_a_run_is_resumed_in_another_attempt(first: int | None, steps: list[int], tmp_path: Path) -> None:
    short(tmp_path, 5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    short(tmp_path, 3, resume=True, first_step=first)
    assert {path: path.read_bytes() for path in before} == before, "the first attempt stays as it was"
    again = [
        row["step"] for shard in sorted((tmp_path / "steps").glob("a01-*")) for row in pq.read_table(shard).to_pylist()
    ]
    assert again == steps
    runs = [json.loads((tmp_path / f"run-a0{attempt}.json").read_text()) for attempt in (0, 1)]
    assert runs[0]["run_id"] == runs[1]["run_id"]
    assert (runs[1]["attempt"], runs[1]["first_step"]) == (1, steps[0])
    shard = next((tmp_path / "steps").glob("a01-*"))
    assert pq.read_schema(shard).metadata[b"glideslope.run_id"].decode() == runs[0]["run_id"]


def test_a_directory_without_a_run_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    short(tmp_path, 3)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert column(tmp_path, "step") == [0, 1, 2]


class OwnScale(nn.Module):
    """A parameter that the model holds, and only the loss uses."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.scale = nn.Embedding(9, 4), nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        places: Tensor = self.place(x)
        return places


def test_a_parameter_that_is_used_in_the_loss_alone(tmp_path: Path) -> None:
    """As the temperature of a contrastive loss. What its module makes of it is nothing, and that does not add up."""
    torch.manual_seed(0)
    model = OwnScale()
    optimizer = torch.optim.Adagrad(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model, optimizer, preset="full", strict=True) as recorder:
        for _ in range(6):
            optimizer.zero_grad()
            with recorder.step() as step:
                places = model(torch.arange(9))
                step.backward(F.cross_entropy(model.scale.exp() * places @ places.T, torch.arange(9)))
            optimizer.step()
    assert "do not add up" in reasons(tmp_path / "run")["steps.start_slope"]
