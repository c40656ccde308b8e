"""Small trainings that are recorded, to be ended in many ways. As a script: several at once, killed after some time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from recorder import Recorder

AT_ONCE = 5


def fly(where: Path, steps: int, each: Callable[[int], object] = lambda index: None, **options: object) -> nn.Module:
    """A training of `steps` steps; `each` is called within every step, before its backward pass."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    with Recorder(where, model, optimizer, loss_fn, every=4, dense_steps=8, **options) as recorder:  # type: ignore[arg-type]
        for index in range(steps):
            inputs = torch.randn(8, 4)
            optimizer.zero_grad()
            with recorder.step() as step:
                loss = loss_fn(model(inputs), inputs[:, :3].argmax(1))
                each(index)
                step.backward(loss)
            optimizer.step()
            if index % 10 == 0:
                recorder.log("valid", loss=loss)
    return model


def beating(where: Path) -> None:
    """Train for ever; the time of the start, then of each step, goes to a file beside the run, unbuffered."""
    beats = os.open(where.with_suffix(".beats"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def beat(index: int) -> None:
        os.write(beats, f"{index} {time.monotonic()}\n".encode())
        time.sleep(0.05)

    os.write(beats, f"start {time.monotonic()}\n".encode())
    fly(where, 1_000_000, beat)


def killed(where: Path, moment: float, number: int) -> None:
    """Fork a training, send it a signal after `moment` seconds, and note when that was and how the process ended."""
    pid = os.fork()
    if pid == 0:
        beating(where)
    time.sleep(moment)
    os.kill(pid, number)
    where.with_suffix(".killed").write_text(f"{time.monotonic()}")
    _, status = os.waitpid(pid, 0)
    where.with_suffix(".status").write_text(str(os.waitstatus_to_exitcode(status)))


def main(root: str, number: str, moments: list[str]) -> None:
    """Start trainings, AT_ONCE at a time, and kill each by signal `number` at its moment (in seconds)."""
    torch.set_num_threads(1)
    fly(Path(root) / "warm-up", 12)  # imports and the like, once for all
    for first in range(AT_ONCE):
        if os.fork() == 0:
            for place in range(first, len(moments), AT_ONCE):
                killed(Path(root) / f"run{place}", float(moments[place]), int(number))
            os._exit(0)
    for _ in range(AT_ONCE):
        os.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
