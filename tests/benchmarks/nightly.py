"""What a night costs: the time and memory of `glideslope nightly` over many runs of which few have changed.

    python tests/benchmarks/nightly.py [--runs 1000] [--changed 50] [--jobs 2]

The runs are copies of small synthetic ones, healthy and faulty. The first night reports them all; then some are
recorded anew, and the second night is what counts. Where other work is going on beside it, the CPU time tells more.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import chromium, why_absent  # noqa: E402
from support.synthetic import Training, falling, flat, validated  # noqa: E402

KINDS = (
    Training(metrics=validated(lambda share: 1.0 / (1 + 9 * share))),
    Training(loss=flat(300), gradient=lambda step, layer: 0.0),
    Training(loss=[*falling(200), *([float("nan")] * 100)]),
    Training(loss=falling(300, rate=0.001), alpha=lambda step: -0.97),
)
"""A healthy training, one that stands still, one that breaks, and one that is too slow."""

SORTED = """() => new Promise((done) => {
    document.querySelector("th button").click();
    requestAnimationFrame(done);
})"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(done))"


def main() -> None:
    """Make the runs, let two nights pass, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--changed", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, site = Path(folder) / "runs", Path(folder) / "site"
        kinds = [kind.write(Path(folder) / f"kind-{i}") for i, kind in enumerate(KINDS)]
        for i in range(options.runs):
            shutil.copytree(kinds[i % len(kinds)], root / f"project-{i % 7}" / f"run-{i:04d}")
        print(f"{options.runs} runs, {options.changed} changed, {options.jobs} processes")
        print(f"first night   {night(root, site, options.jobs)}")
        record_anew(root, kinds, options.changed)
        print(f"second night  {night(root, site, options.jobs)}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"peak memory   {used.ru_maxrss / 1024:8.0f} MB of a process")
        print(f"index         {(site / 'index.html').stat().st_size / 1e6:8.2f} MB")
        print(f"summary       {(site / 'summary.json').stat().st_size / 1e6:8.2f} MB")
        print(why_absent() or browsing(site / "index.html"))


def record_anew(root: Path, kinds: list[Path], amount: int) -> None:
    """Puts another run in place of some."""
    for i, run in enumerate(sorted(root.glob("*/*"))[:amount]):
        shutil.rmtree(run)
        shutil.copytree(kinds[(i + 1) % len(kinds)], run, copy_function=shutil.copy)


def night(root: Path, site: Path, jobs: int) -> str:
    """What a night takes, and what it says at the end."""
    command = [sys.executable, "-m", "analyzer", "nightly", str(root), "-o", str(site), "--jobs", str(jobs)]
    before, begun = cpu(), time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, cwd=root.parent, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    return f"{seconds:8.1f} s, {cpu() - before:.1f} s of CPU time   {done.stdout.splitlines()[1]}"


def cpu() -> float:
    """CPU seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def browsing(index: Path) -> str:
    """Seconds until the index stands, and until it is sorted and filtered."""
    with chromium() as browser:
        page = browser.new_page()
        begun = time.perf_counter()
        page.goto(index.as_uri())
        page.wait_for_function("() => !document.querySelector('.toolbar').hidden")
        loaded = time.perf_counter()
        page.evaluate(
            "() => new Promise((done) => { document.querySelector('th button').click(); requestAnimationFrame(done); })"
        )
        sorted_at = time.perf_counter()
        page.fill("input[type=search]", "run-0123")
        page.evaluate(PAINTED)
        return (
            f"index opens   {loaded - begun:8.2f} s, is sorted in {sorted_at - loaded:.2f} s, "
            f"filtered in {time.perf_counter() - sorted_at:.2f} s"
        )


if __name__ == "__main__":
    main()
