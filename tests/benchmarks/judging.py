"""What judging and reporting a long run cost: wall time, CPU time and peak memory, each in a process of its own.

    python tests/benchmarks/judging.py [--steps 1000000] [--tensors 100] [--every 16] [--rules] [--run DIR]

The run is synthetic, of preset full, in as many shards as a recorder writes in 14 hours; with --run it is kept in a
directory, and found there the next time. --rules adds the time of each rule, of which the first to need something pays
for all. The processes get two threads (--threads). Aimed at: 10 s and 1500 MB for either, and a page of 4 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    """Write the run, and print what each process took; or be one of these processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--tensors", type=int, default=100)
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rules", action="store_true", help="print the time of each rule as well")
    parser.add_argument("--run", type=Path, metavar="DIR", help="keep the run there, or take the one that is there")
    parser.add_argument("--generate", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge or options.generate:
        judge(options.judge) if options.judge else generate(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or Path(folder) / "long"
        if not run.exists():
            sizes = ["--steps", options.steps, "--tensors", options.tensors, "--every", options.every]
            subprocess.run([sys.executable, __file__, "--generate", run, *map(str, sizes)], check=True)
        print(f"{options.steps} steps, {options.tensors} tensors, probed every {options.every}")
        print(f"{'':10}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}{'page MB':>9}")
        told = row("judge", [__file__, "--judge", str(run)], options.threads)
        page = Path(folder) / "report.html"
        row("report", ["-m", "analyzer", "report", str(run), "-o", str(page)], options.threads, page)
        if options.rules:
            for code, seconds in sorted(json.loads(told).items(), key=lambda item: -item[1]):
                print(f"  {code:8}{seconds:8.2f}")


def generate(options: argparse.Namespace) -> None:
    """Writes the run."""
    from long_runs import Long, write

    write(options.generate, Long(options.steps, options.tensors, options.every))


def row(name: str, arguments: list[str], threads: int, page: Path | None = None) -> str:
    """Runs a process, prints what it took, and returns its output."""
    environment = os.environ | {"POLARS_MAX_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    if status:
        sys.exit(f"{name} failed")
    size = f"{page.stat().st_size / 1e6:9.2f}" if page else ""
    print(f"{name:10}{seconds:8.2f}{used.ru_utime + used.ru_stime:8.2f}{used.ru_maxrss / 1024:9.0f}{size}", flush=True)
    return told


def judge(path: Path) -> None:
    """Judges a run by all rules, and prints the seconds that each took as JSON."""
    from dataclasses import replace

    from analyzer.config import Settings, choose
    from analyzer.detectors import DETECTORS
    from analyzer.engine import judge_run
    from analyzer.run import open_run

    seconds: dict[str, float] = {}
    begun = time.perf_counter()
    run, rules = open_run(path), choose(DETECTORS, Settings())
    seconds["open"] = time.perf_counter() - begun
    for rule in rules.detectors:
        begun = time.perf_counter()
        judge_run(run, replace(rules, detectors=(rule,)))
        seconds[rule.code] = time.perf_counter() - begun
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
