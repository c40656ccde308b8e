"""What a night costs: the time and memory of `glideslope nightly` over many runs of which few have changed.

    python tests/benchmarks/nightly.py [--runs 1000] [--changed 50] [--jobs 2] [--whole]

The runs are copies of four small synthetic ones, healthy and faulty. The night before is that of the four, and what it
left is copied too (`--whole`: all are reported). Then some are recorded anew, and the next night is what counts. Where
other work is going on beside it, the CPU time tells more.
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
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import chromium, why_absent  # noqa: E402
from support.synthetic import Training, falling, flat, validated  # noqa: E402

from analyzer.config import Settings  # noqa: E402
from analyzer.engine import TOOL  # noqa: E402
from analyzer.nightly.search import fingerprint, key_of  # noqa: E402
from analyzer.nightly.summary import read_summary, write_summary  # noqa: E402

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
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, site = Path(folder) / "runs", Path(folder) / "site"
        kinds = [kind.write(Path(folder) / f"kind-{i}") for i, kind in enumerate(KINDS)]
        names = [f"project-{i % 7}/run-{i:04d}" for i in range(options.runs)]
        first = names if options.whole else names[: len(kinds)]
        print(f"{options.runs} runs, {options.changed} changed, {options.jobs} processes")
        for i, name in enumerate(first):
            shutil.copytree(kinds[i % len(kinds)], root / name)
        print(f"first night   {night(root, site, options.jobs)}")
        copy_night(root, site, names, len(first))
        record_anew(root, kinds, options.changed)
        print(f"second night  {night(root, site, options.jobs)}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"peak memory   {used.ru_maxrss / 1024:8.0f} MB of a process")
        print(f"index         {(site / 'index.html').stat().st_size / 1e6:8.2f} MB")
        print(f"summary       {(site / 'summary.json').stat().st_size / 1e6:8.2f} MB")
        print(why_absent() or browsing(site / "index.html"))


def copy_night(root: Path, site: Path, names: list[str], done: int) -> None:
    """Copies the runs that are `done`, with all that a night left of them, until there is one of each name."""
    before = read_summary(site)
    assert before is not None
    entries = {entry.run: entry for entry in before.runs}
    for i, name in enumerate(names[done:], done):
        known = entries[names[i % done]]
        shutil.copytree(root / known.run, root / name)
        shutil.copytree(site / "runs" / known.run, site / "runs" / name)
        mark = fingerprint(root / name, key_of(TOOL, Settings()))
        entries[name] = replace(known, run=name, report=f"runs/{name}/report.html", fingerprint=mark)
    write_summary(replace(before, runs=tuple(entries.values())), site)


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
