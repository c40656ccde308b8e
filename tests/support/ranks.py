"""Trainings on two ranks of a process group, recorded and not. As a script: one of the ranks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from support.loops import Log, fly
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
STEPS = 3
SIZES = (4, 2)
"""Samples of a rank's batches."""


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def batch(index: int, rank: int, part: int = 0) -> tuple[Tensor, Tensor]:
    """Of a step, a rank, and a micro-batch of it."""
    generator = torch.Generator().manual_seed(100 * index + 10 * rank + part)
    inputs = torch.randn(SIZES[0], 4, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (SIZES[0],), generator=generator)


def classify(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(data[0]), data[1])


def plain(log: Log) -> None:
    for index in range(STEPS):
        log.optimizer.zero_grad()
        with log.step() as backward:
            backward(classify(log.model, batch(index, dist.get_rank())))
        log.optimizer.step()


def accumulated(log: Log) -> None:
    """Two micro-batches, of which only the last has its gradients averaged with those of the other rank."""
    for index in range(STEPS):
        log.optimizer.zero_grad()
        with log.step() as backward:
            with log.model.no_sync():  # type: ignore[operator]
                backward(classify(log.model, batch(index, dist.get_rank())) / 2)
            backward(classify(log.model, batch(index, dist.get_rank(), 1)) / 2)
        log.optimizer.step()


def replicated(**options: Any) -> Callable[[], nn.Module]:
    return lambda: DistributedDataParallel(mlp(), **options)


def sharded() -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model


TRAININGS: dict[str, tuple[Callable[[], nn.Module], Callable[[Log], None]]] = {
    "replicated": (replicated(), plain),
    "bucket views": (replicated(gradient_as_bucket_view=True, find_unused_parameters=True), plain),
    "accumulated": (replicated(), accumulated),
    "sharded": (sharded, plain),
}


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def main(root: Path, names: list[str]) -> None:
    """Run the trainings of some names in a directory; each rank leaves its parameters before each step there."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in names:
        make, loop = TRAININGS[name]
        log, bare = fly(root / name / "run", make, sgd, loop), fly(None, make, sgd, loop)
        same = [torch.equal(local(a), local(b)) for a, b in zip(log.values(), bare.values(), strict=True)]
        states = [[local(t) for t in moment.parameters] for moment in log.moments]
        losses = torch.stack(log.losses).equal(torch.stack(bare.losses))
        torch.save({"same": all(same) and losses, "states": states}, root / name / f"{dist.get_rank()}.pt")
    dist.barrier()
    dist.destroy_process_group()


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


if __name__ == "__main__":
    os.environ["RANK"] = sys.argv[2]
    main(Path(sys.argv[1]), sys.argv[3:])
