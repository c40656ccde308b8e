"""GEN001: a model that goes on learning its training data by heart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..course import Course, course_of
from ..findings import ChartRef, Evidence, Finding, NotApplicable, Severity
from ..label_fit import training_accuracy
from ..noise import scalar
from ..progress import adversarial, measured
from ..run import Run
from ..validation import logged, metrics
from ..wording import count, number, percent
from .base import Detector


@dataclass(frozen=True)
class Overfitting(Detector):
    """The model does worse and worse on held-out data, or has long stopped to improve there, while it fits its own.

    ## What it does
    Takes what was logged of held-out data (splits called valid, val, dev, test, ...) whose direction the name tells: a
    loss or an error should fall, an accuracy or a score rise. It compares the best stretch of it with the last.
    *Getting worse:* the best was at least `ago` of the run ago, the end is worse by more than `errors` standard errors,
    by `rise` of the best and by `rise` of all that was gained. *Standing still:* nothing was gained for `still` of the
    run, and `left` of the loss at the start is left, of the training loss hardly any. In both cases the second witness
    is the training loss: it went on falling, and ends far below the validation loss (`gap`). *Known by heart:* of a
    classification next to nothing is left of the training loss, and `apart` of the held-out data are wrong. Small rises
    after a convergence, where the validation loss is a small part of what it was, and validation that only scatters are
    none.

    ## Why it matters
    The steps after the best point make the model worse for all that it was not trained on.

    ## What to try
    Keep the checkpoint of the best validation. More data or augmentation, normalisation layers, weight decay or
    dropout; early stopping and a smaller model last.

    ## Options
    - `ago` (0.2, share of the run since the best): a guess.
    - `errors` (3 standard errors of the difference, from the scatter of the validations around their trend).
    - `rise` (0.05, share of the best value, and of the gain): SageMaker Debugger has 0.1 of the training loss.
    - `mild` (0.2, share of the gain): less is worth a note. A guess.
    - `still` (0.4, share of the run without a gain): a guess.
    - `left` (0.12, share of the loss at the start): calibrated. Healthy trainings end at 0.01 to 0.11.
    - `gap` (0.5, training loss over validation loss): calibrated.
    - `perfect` (0.05, share of the loss that knows nothing) and `apart` (0.25, share of the held-out samples that are
      wrong): guesses.
    - `validations` (6): fewer show no trend.

    ## References
    - Prechelt 1998, Early stopping, but when? Google Research, Deep learning tuning playbook.
    """

    code: ClassVar[str] = "GEN001"
    name: ClassVar[str] = "overfitting"
    severity: ClassVar[Severity] = "warning"
    requires: ClassVar = {"steps": ("loss",)}
    explains: ClassVar[tuple[str, ...]] = ()

    ago: float = 0.2
    """Share of the run."""
    errors: float = 3.0
    """Standard errors."""
    mild: float = 0.2
    """Share of the gain that is lost."""
    rise: float = 0.05
    """Share of the best value, and of the gain."""
    still: float = 0.4
    """Share of the run."""
    left: float = 0.12
    """Share of the loss at the start."""
    gap: float = 0.5
    """Training loss over validation loss."""
    perfect: float = 0.05
    """Share of the zero-information loss."""
    apart: float = 0.25
    """Share of the held-out samples that are wrong."""
    validations: int = 6
    """Number."""

    def detect(self, run: Run) -> Iterator[Finding]:
        """At most one finding, on the first metric that shows it: losses before others."""
        if adversarial(run):
            raise NotApplicable("several optimizers take turns: no loss has to fall")
        if run.manifest.mode == "overfit-batch":
            raise NotApplicable("the run is meant to learn one batch by heart")
        known = [metric for metric in metrics(run) if metric.values["step"].n_unique() >= self.validations]
        if not known:
            raise NotApplicable(
                f"no metric of held-out data was logged {self.validations} times;"
                ' log it with recorder.log("valid", loss=..., accuracy=...)'
            )
        courses = [course for metric in known if (course := course_of(run, metric)) is not None]
        for course in courses:
            if self._fits(course) and (self._worse(course) or self._stands(course)):
                yield self._finding(course, courses)
                return
        held_out = self._by_heart(run)
        if held_out is not None:
            yield self._apart(run, held_out)

    def _fits(self, course: Course) -> bool:
        """Whether the training loss went on falling after the best validation, to far below it where they compare."""
        before, after = course.train_at_best, course.train_end
        if course.signed:  # a likelihood: nothing is a share of anything
            fell = before.value - after.value
            return before.exceeds(after, 3.0) and fell > 0.1 * (course.train_start - after.value)
        falling = before.exceeds(after, 3.0) and after.value < 0.9 * before.value
        gone = after.value <= 0.1 * course.train_start
        far = not course.comparable or after.value <= self.gap * course.end.value
        return (falling or gone) and far

    def _worse(self, course: Course) -> bool:
        """Whether the end is worse than the best, significantly and by as much as matters."""
        rise = course.end.value - course.best.value
        unlearned = not course.comparable or course.share_left(course.best.value) >= 0.5 * self.left
        return (
            course.since_best >= self.ago
            and course.end.exceeds(course.best, self.errors)
            and rise > self.rise * abs(course.best.value)
            and rise > self.rise * (course.start - course.best.value)
            and course.share_left(course.end.value) >= self.left
            and unlearned
        )

    def _stands(self, course: Course) -> bool:
        """Whether nothing was gained for long though much is left, of which the training data show nothing."""
        return (
            course.metric.is_loss
            and course.comparable
            and not course.signed
            and course.since_gain >= self.still
            and course.share_left(course.end.value) >= 1.5 * self.left
            and course.train_end.value <= 0.1 * course.end.value
        )

    def _by_heart(self, run: Run) -> float | None:
        """The accuracy on held-out data, where that on training data is perfect and theirs far below; else None."""
        values, progress = logged(run, "accuracy")["value"], measured(run)
        if len(values) < self.validations or progress is None or progress.zero is None or progress.zero.scale != 1:
            return None
        fitted = progress.end.value <= self.perfect * progress.zero.prior or (training_accuracy(run) or 0.0) >= 0.99
        held_out = scalar(values.tail(3).max())
        return held_out if fitted and held_out <= 1 - self.apart else None

    def _apart(self, run: Run, held_out: float) -> Finding:
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message="The training data are known by heart, and of the held-out data"
            f" {percent(held_out)} are classified correctly.",
            confidence=0.7,
            first_step=run.first_step,
            last_step=run.last_step,
            value=1 - held_out,
            threshold=self.apart,
            unit="share",
            evidence=Evidence(
                ("The training loss is next to nothing, or all training data are classified correctly.",),
                ("No metric of held-out data got worse.",),
            ),
            causes=_CAUSES,
            advice=_ADVICE,
            chart=ChartRef("metrics", "value"),
        )

    def _finding(self, course: Course, courses: list[Course]) -> Finding:
        worse, metric = self._worse(course), course.metric
        nothing = course.comparable and course.share_left(course.best.value) > 0.95
        sign = 1 if metric.falls else -1
        best, end = sign * course.best.value, sign * course.end.value
        change = f"from {number(best)} around step {count(course.best_step)} to {number(end)}"
        way, title = "fall" if metric.falls else "rise", str(metric).capitalize()
        supporting = (
            f"The training loss went on from {number(course.train_at_best.value)} to {number(course.train_end.value)}.",
            f"{title} is taken to {way} where a model gets better, by its name.",
        )
        opposing = [
            f"{str(other.metric).capitalize()} did not get worse: it ended at"
            f" {number(other.end.value if other.metric.falls else -other.end.value)}."
            for other in courses
            if other is not course and not other.end.exceeds(other.best, 1.0)
        ]
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity if worse and course.lost >= self.mild else "note",
            message=f"{title} got worse {change}, while the training loss fell on to {number(course.train_end.value)}."
            if worse
            else f"{title} has stood at {number(end)} for {percent(course.since_gain)} of the run,"
            f" {percent(course.share_left(course.end.value))} of its start, while the training loss fell on to"
            f" {number(course.train_end.value)}.",
            confidence=0.5 if nothing else 0.9 if worse else 0.8,
            first_step=course.best_step,
            last_step=course.last_step,
            value=abs(course.end.value - course.best.value) / abs(course.best.value) if course.best.value else None,
            threshold=self.rise,
            unit="share",
            evidence=Evidence(supporting, tuple(opposing)),
            causes=(
                *("Labels that do not belong to the inputs: nothing of them carries over",) * nothing,
                *_CAUSES,
            ),
            advice=(
                f"Keep the checkpoint of around step {count(course.best_step)}.",
                *_ADVICE,
            ),
            chart=ChartRef("metrics", "value"),
        )


_CAUSES = (
    "More capacity than the data can pin down: too few samples, or too many parameters",
    "Trained for too long",
    "Too little regularisation or augmentation",
    "Held-out data of another kind than the training data",
)
_ADVICE = (
    "More data or augmentation; then normalisation layers, weight decay or dropout.",
    "Early stopping and a smaller model last.",
)
