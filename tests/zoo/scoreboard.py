"""Judge the recorded runs of the zoo, and print how well: recall, the cause named first, wrong names, false alarms.

python tests/zoo/record.py --part tuning -o DIR
python tests/zoo/scoreboard.py DIR [--part tuning] [--jobs 2] [--select CODES] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # run as a program, it knows neither the packages nor the zoo

from zoo import tables  # noqa: E402
from zoo.ablation import arms  # noqa: E402
from zoo.judging import OURS, Contender, Judgement, Place, judge_all, ours, places  # noqa: E402
from zoo.rivals.listed import RIVALS  # noqa: E402
from zoo.tally import Case, Cases, Role, RuleCount, Total, by_rule, total  # noqa: E402

from analyzer.calibration import FILE, PARTS  # noqa: E402
from analyzer.detectors import DETECTORS  # noqa: E402

CODES = [detector.code for detector in DETECTORS]


def contenders(select: Sequence[str], ablation: bool, rivals: bool) -> Mapping[str, Contender]:
    """Who judges."""
    return {OURS: ours(select)} | (arms() if ablation else {}) | (dict(RIVALS) if rivals else {})


def cases_of(part: str) -> dict[tuple[str, str], Case]:
    """What is true of the variants of a part. Without measured outcomes, what was meant stands for what is."""
    from zoo import catalogue  # imports torch, which the workers, who import this file as well, do without
    from zoo.labels import read_labels
    from zoo.program import KINDS

    labels = read_labels(part)
    cases = {}
    for program in catalogue.PARTS[part]:
        twins = {variant.twin for variant in program.variants}
        for variant in program.variants:
            label = labels.get((program.name, variant.name), "healthy" if variant.fault is None else "faulty")
            kinds = () if variant.fault is None else (variant.fault, *variant.also)
            role: Role = "benign" if label == "benign" else "faulty" if kinds else "healthy"
            role = "twin" if role == "healthy" and variant.name in twins else role
            cases[program.name, variant.name] = Case(role, kinds, frozenset(c for kind in kinds for c in KINDS[kind]))
    return cases


def chosen(found: Sequence[Place], cases: Cases, only: Sequence[str]) -> list[Place]:
    """The runs of variants that there are, of `only` (PROGRAM or PROGRAM/VARIANT) where it is given."""
    known = [place for place in found if (place.program, place.variant) in cases]
    return [p for p in known if not only or p.program in only or f"{p.program}/{p.variant}" in only]


def judged(where: Sequence[Place], options: argparse.Namespace) -> Iterator[Judgement]:
    """All judgements, with progress on the standard error."""
    started = time.perf_counter()
    for number, each in enumerate(
        judge_all(where, contenders, (options.select, options.ablation, options.rivals), options.jobs), 1
    ):
        yield from each
        seconds = time.perf_counter() - started
        if number % 50 == 0 or number == len(where):
            print(f"{number}/{len(where)} runs, {seconds:.0f} s", file=sys.stderr, flush=True)


def totals(judgements: Sequence[Judgement], cases: Cases) -> list[Total]:
    """A row for each contender."""
    names = dict.fromkeys(item.contender for item in judgements)
    return [total(name, [item for item in judgements if item.contender == name], cases) for name in names]


def report(judgements: Sequence[Judgement], cases: Cases) -> str:
    """Everything there is to say, in Markdown."""
    mine = [item for item in judgements if item.contender == OURS]
    crashes = [f"{code} {item.run}: {why}" for item in mine for code, why in item.failed.items()]
    parts = {
        "Variants": tables.variants(mine, cases),
        "Kinds of fault": tables.kinds(mine, cases),
        "Rules": tables.rules(by_rule(CODES, mine, cases)),
        "How far the confidence of findings can be trusted": tables.reliability(mine, cases),
        "What was said about healthy runs and twins": tables.alarms(mine, cases),
        "Rules that crashed": "\n".join(crashes) or "none",
        "What the rules of other tools could not judge": tables.silent(j for j in judgements if j.contender in RIVALS),
        "Totals": tables.totals(totals(judgements, cases)),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


def write_calibration(part: str, counts: Sequence[RuleCount]) -> None:
    """Put what was measured where the pages of the rules find it; the other parts stay as it is."""
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    content[part] = {
        item.code: {
            "healthy": item.healthy,
            **{f"{severity}s": number for severity, number in item.alarms.items()},
            "faulty": item.faulty,
            "named": item.right,
            "fired": item.fired,
            "true": item.true,
        }
        for item in counts
    }
    lines = [
        f'"{name}": {{\n' + ",\n".join(f'"{code}": {json.dumps(row)}' for code, row in sorted(rules.items())) + "\n}"
        for name, rules in sorted(content.items())
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def between_markers(text: str, part: str, content: str) -> str:
    """The text with the content in place of what stands between the markers of a part.

    Raises LookupError, with what to do, where there are none.
    """
    start, end = f"<!-- scoreboard {part} -->", f"<!-- end of scoreboard {part} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise LookupError(f"there is no place for the table: put the lines {start} and {end} where it belongs.")
    return f"{before}{start}\n{content}\n{end}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge what the arguments say. Returns 0, 2 where the arguments make no sense."""
    options = parser().parse_args(arguments)
    cases = cases_of(options.part)
    where = chosen(places(options.directory), cases, options.only)
    if not where:
        print(f"scoreboard.py: {options.directory} holds no such runs: record them with record.py.", file=sys.stderr)
        return 2
    judgements = list(judged(where, options))
    print(report(judgements, cases))
    if options.readme is not None:
        table = tables.short(totals(judgements, cases))
        try:
            options.readme.write_text(between_markers(options.readme.read_text(), options.part, table))
        except LookupError as error:
            print(f"scoreboard.py: {options.readme}: {error.args[0]}", file=sys.stderr)
            return 2
    if options.write:
        write_calibration(options.part, by_rule(CODES, [j for j in judgements if j.contender == OURS], cases))
    if options.json is not None:
        roles = {"/".join(key): {"role": case.role, "kinds": case.kinds} for key, case in cases.items()}
        content = {"part": options.part, "cases": roles, "judgements": [item.plain() for item in judgements]}
        options.json.write_text(json.dumps(content, indent=1))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("scoreboard.py", description="How well the rules judge the calibration zoo.")
    made.add_argument("directory", type=Path, metavar="DIR", help="what record.py wrote")
    made.add_argument("--part", choices=sorted(PARTS), default="tuning")
    made.add_argument("--only", action="append", default=[], metavar="PROGRAM[/VARIANT]", help="may be repeated")
    made.add_argument("--select", action="append", default=[], metavar="CODE", help="only these of our rules")
    made.add_argument("--ablation", action="store_true", help="also our rules with instruments left out")
    made.add_argument("--rivals", action="store_true", help="also the documented rules of other tools")
    made.add_argument("--readme", type=Path, metavar="FILE", help="put the totals between the markers of this file")
    made.add_argument("--write", action="store_true", help=f"keep the rates of the rules in {FILE.name}")
    made.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the judgements themselves as well")
    return made


if __name__ == "__main__":
    sys.exit(main())
