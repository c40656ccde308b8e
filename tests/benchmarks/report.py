"""What a report of a long run costs: its size, the time and memory to make it, and the time to its first screen.

    python tests/benchmarks/report.py [--steps 100000] [--tensors 60] [--every 16]

The run is synthetic, with the noise of a real one. The report is made by the command line in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.browser import chromium, why_absent
from support.runs import tensor_entries, write_run

FIRST_SCREEN = """() => {
    const inView = (slot) => {
        const box = slot.getBoundingClientRect();
        return box.width > 0 && box.top < innerHeight && box.bottom > 0;
    };
    const waiting = [...document.querySelectorAll("[data-chart]")].filter((slot) => inView(slot) && slot.dataset.state
    !== "drawn"); return waiting.length === 0 && document.readyState === "complete";
}"""


def main() -> None:
    """Build the run, make its report, open it, and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--tensors", type=int, default=60)
    parser.add_argument("--every", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = long_run(Path(folder) / "long", options.steps, options.tensors, options.every)
        page = Path(folder) / "report.html"
        seconds = make(run, page)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{options.steps} steps, {options.tensors} tensors, probed every {options.every}")
        print(f"size          {page.stat().st_size / 1e6:8.2f} MB")
        print(f"made in       {seconds:8.2f} s")
        print(f"CPU time      {used.ru_utime + used.ru_stime:8.2f} s")
        print(f"peak memory   {used.ru_maxrss / 1024:8.0f} MB")
        print(why_absent() or f"first screen  {first_screen(page):8.2f} s")


def long_run(path: Path, steps: int, tensors: int, every: int) -> Path:
    """A run whose loss falls, with alpha at every step and statistics of each tensor at probes."""
    rng = np.random.default_rng(0)
    at = np.arange(steps)
    loss = 2.3 * np.exp(-at / (steps / 6)) + 0.05 + 0.02 * rng.standard_normal(steps) ** 2
    noise = rng.standard_normal(steps)
    slope = -0.01 * np.exp(0.3 * noise)
    columns = {
        "step": range(steps),
        "time": at * 0.01,
        "duration": 0.01 * np.exp(0.1 * rng.standard_normal(steps)),
        "probed": (at < 100) | (at % every == 0),
        "batch_size": 128,
        "loss": loss,
        "lr": [[rate] for rate in 0.1 * (1 + np.cos(np.pi * at / steps)) / 2],
        "grad_norm": np.exp(0.3 * noise),
        "update_norm": 0.1 * np.exp(0.3 * noise),
        "loss_var": 0.1,
        "loss_count": 128,
        "start_slope": slope,
        "start_slope_var": 1e-4,
        "end_slope": 0.5 * slope * rng.standard_normal(steps),
        "end_slope_var": 1e-4,
        "slope_count": 128,
    }
    names = [f"blocks.{i // 2}.linear.{'bias' if i % 2 else 'weight'}" for i in range(tensors)]
    manifest = {"tensors": tensor_entries(names), "parameters": 25_000_000, "model": "Transformer"}
    return write_run(path, columns, layer_rows(rng, names, at[columns["probed"]]), manifest=manifest, shards=20)


def layer_rows(rng: np.random.Generator, names: list[str], probes: np.ndarray) -> dict[str, object]:
    """Norms of each tensor at each probe, log-normal around a level of its own."""
    rows = len(probes) * len(names)
    level = np.tile(np.linspace(-1, 0, len(names)), len(probes))
    around = [np.exp(level + 0.3 * rng.standard_normal(rows)) for _ in range(2)]
    return {
        "step": np.repeat(probes, len(names)),
        "tensor": names * len(probes),
        "grad_norm": around[0],
        "param_norm": np.full(rows, 5.0),
        "update_norm": 1e-3 * around[1],
        "distance": np.sqrt(np.repeat(probes, len(names)) + 1.0) * 1e-2,
    }


def make(run: Path, page: Path) -> float:
    """Seconds that `glideslope report` takes."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "analyzer", "report", str(run), "-o", str(page)], check=True, cwd=ROOT)
    return time.perf_counter() - begun


def first_screen(page: Path) -> float:
    """Seconds until all charts in the first screen are drawn: the median of five fresh loads."""
    with chromium() as browser:
        return sorted(load(browser, page) for _ in range(5))[2]


def load(browser: object, page: Path) -> float:
    """Seconds from navigation to the first screen, in a window of 1280 x 800."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    begun = time.perf_counter()
    tab.goto(page.as_uri(), wait_until="commit")
    tab.wait_for_function(FIRST_SCREEN, polling=10)
    seconds = time.perf_counter() - begun
    context.close()
    return seconds


ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    main()
