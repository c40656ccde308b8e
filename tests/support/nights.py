"""Work for processes that are started anew: they can only be given functions of a module that they can import."""

from __future__ import annotations

import os
import signal

from analyzer.nightly.summary import Entry
from analyzer.nightly.work import Task, broken


def fragile(task: Task) -> Entry:
    """An entry that names its process; a task of the name `dies` takes its process along."""
    if task.name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return broken(task, f"{os.getpid()} {os.environ['POLARS_MAX_THREADS']}")
