"""What does each part of the risk model do? ``python benchmarks/risk_ablation.py``.

Each part and each setting of the model and of auto-spibb is left out in turn, or changed. All
variants improve the baselines of the same logs: those of the development half of the generators.
``--page docs/risk-study.md`` fills the table into the page.
"""

import argparse
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from spibb import evaluate
from spibb.algorithms.auto_spibb import PENALISED, AutoSPIBB, candidates, ending
from spibb.posterior import model as model_module
from spibb.posterior.gain_moments import GainMoments
from spibb.posterior.model import PosteriorModel
from spibb.posterior.settings import ModelSettings
from spibb.posterior.unseen_losses import UnseenLosses
from spibb.problem import Problem, ProblemBatch
from spibb.studies.claims import markdown_table
from spibb.studies.generators.halves import draw_lot
from spibb.studies.generators.registry import GENERATORS
from spibb.studies.publishing import fill_page

SIZES = (10, 100, 1000)
SEED = 34  # other logs than those of the study


class Variant:
    """A model or a choice that differs in one thing.

    Args:
        title: What differs.
        caution: Of auto-spibb.
        replaced: (owner, name, value) of what takes the place of a part.
        keep: Which candidates take part, by label; None: all.
        settings: Of the model.
    """

    def __init__(
        self,
        title: str,
        *,
        caution: float = AutoSPIBB.caution,
        replaced: tuple[Any, str, Any] | None = None,
        keep: Callable[[Any], bool] | None = None,
        **settings: float,
    ) -> None:
        self.title, self.caution, self.replaced, self.keep = title, caution, replaced, keep
        self.settings = ModelSettings(**settings)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Put the replacement in its place for a while."""
        if self.replaced is None:
            yield
            return
        owner, name, value = self.replaced
        kept = vars(owner)[name]
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, kept)

    def policy(self, problem: Problem) -> np.ndarray:
        """Return the policy that this variant chooses."""
        with self.patched():
            batch, model = ProblemBatch.alone(problem), PosteriorModel.of(problem, self.settings)
            tried, labels, _ = candidates(batch, [model], self.caution)
            ends = ending(batch.models, tried)[:, 0]
            if self.keep is not None:
                kept = [k for k, label in enumerate(labels) if self.keep(label)]
                tried, labels, ends = tried[kept], [labels[k] for k in kept], ends[kept]
            choice = AutoSPIBB(caution=self.caution).choose(model, tried[:, 0], labels, ends=ends)
            if choice.chosen is None:
                return problem.baseline.probabilities
            return tried[choice.chosen, 0]


def _no_price(losses: UnseenLosses, q: np.ndarray, caution: float) -> tuple[Any, Any]:
    return np.zeros_like(q), np.zeros(q.shape[1:])


def _no_variance(moments: GainMoments, *given: Any) -> np.ndarray:
    return np.zeros(len(given[0]))


def _one_group(likelihood: np.ndarray, prior: np.ndarray) -> Any:
    """Return the posterior of one m for all states."""
    score = likelihood.sum(axis=1) + np.log(np.maximum(prior, 1e-300))
    weights = np.exp(score - score.max())
    weights /= weights.sum()
    parts = np.repeat(np.eye(len(prior))[:, :, None], likelihood.shape[1], axis=2)
    mean = np.einsum("l,lms->ms", weights, parts)
    return model_module.Mixture(mean, weights, parts)


VARIANTS = (
    Variant("the model as it is"),
    Variant("no candidates that are penalised", keep=lambda one: one[0]["algorithm"] != PENALISED),
    Variant("penalised candidates alone", keep=lambda one: one[0]["algorithm"] == PENALISED),
    Variant("no candidates on the counts", keep=lambda one: one[1] != "counts"),
    Variant("no rare events", event_threshold=1e6),
    Variant("no likeness of events", replaced=(model_module, "likeness", lambda *_: 1.0)),
    Variant("no unseen losses and wins", prior_losses=0.0),
    Variant("no unseen wins", replaced=(UnseenLosses, "win", 0.0)),
    Variant(
        "no price of unseen losses in the search", replaced=(UnseenLosses, "prices", _no_price)
    ),
    Variant(
        "no variance by pseudo-counts",
        replaced=(GainMoments, "_of_pseudo_counts", _no_variance),
    ),
    Variant(
        "no pessimistic frontier",
        replaced=(model_module, "_frontier_reward", lambda *_: 0.0),
    ),
    Variant("one group of states", replaced=(model_module, "mix_groups", _one_group)),
    Variant("`equal_actions` 0.05", equal_actions=0.05),
    Variant("`equal_actions` 0.5", equal_actions=0.5),
    Variant("`event_threshold` 3", event_threshold=3.0),
    Variant("`event_threshold` 8", event_threshold=8.0),
    Variant("`event_prior` 0.05", event_prior=0.05),
    Variant("`event_prior` 1", event_prior=1.0),
    Variant("`prior_losses` 0.5", prior_losses=0.5),
    Variant("`prior_losses` 2", prior_losses=2.0),
    Variant("`prior_groups` 4", prior_groups=4.0),
    Variant("`dispersion` 1", dispersion=1.0),
    Variant("`dispersion` 2", dispersion=2.0),
    Variant("`caution` 0", caution=0.0),
    Variant("`caution` 1", caution=1.0),
    Variant("`caution` 2", caution=2.0),
)


def judge(asked: tuple[str, int, int]) -> tuple[bool, list[float]]:
    """Return whether a log can show the damage, and the gain of each variant."""
    name, size, run = asked
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), run])
    instance = GENERATORS[name].draw(rng)
    given: dict[str, Any] = {"baseline": instance.baseline, "gamma": instance.process.gamma}
    if instance.reward_range is not None:
        given["reward_range"] = instance.reward_range
    log = instance.log(size, np.random.default_rng([SEED, run, size]))
    problem, scale = Problem.of(log, **given), instance.scale()
    base = evaluate(instance.process, instance.baseline).performance
    gains = []
    for variant in VARIANTS:
        gain = (evaluate(instance.process, variant.policy(problem)).performance - base) / scale
        gains.append(0.0 if abs(gain) < 1e-7 else gain)
    return instance.shows_damage(size), gains


def table(visible: np.ndarray, gains: np.ndarray, groups: np.ndarray) -> str:
    """Return a row for each variant.

    Args:
        visible: Whether logs can show their damage, shape (L,).
        gains: Shape (L, V).
        groups: The generator of each log, shape (L,).
    """
    worse, rows = gains < 0.0, []
    for k, variant in enumerate(VARIANTS):
        rates = [worse[groups == g, k].mean() for g in np.unique(groups)]
        n_tail = math.ceil(0.05 * len(gains))
        rows.append([
            variant.title, f"{np.maximum(gains[:, k], -1.0).mean():.3f}",
            f"{100 * worse[:, k].mean():.2f} %", f"{100 * worse[visible, k].mean():.2f} %",
            f"{100 * max(rates):.0f} %", f"{np.sort(gains[:, k])[:n_tail].mean():.3f}",
        ])  # fmt: skip
    head = ["what differs", "mean gain", "worse, all logs", "worse, damage visible",
            "worse, worst generator", "mean of the worst 5 %"]  # fmt: skip
    return markdown_table(head, rows)


def main() -> None:
    """Judge all variants on the same logs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="logs of each generator and size")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--page", type=Path, help="a page whose table is filled")
    args = parser.parse_args()
    names = draw_lot().development
    asked = [(name, size, run) for name in names for size in SIZES for run in range(args.runs)]
    with get_context("fork").Pool(args.jobs) as pool:
        found = pool.map(judge, asked, chunksize=8)
    visible, gains = np.array([one[0] for one in found]), np.array([one[1] for one in found])
    told = table(visible, gains, np.array([names.index(one[0]) for one in asked]))
    text = (
        f"`python benchmarks/risk_ablation.py --runs {args.runs}`: {len(asked):,} logs of the "
        f"development half, of {', '.join(f'{n:,}' for n in SIZES)} episodes, seed {SEED}. Gains "
        f"below -1 count as -1 in the mean.\n\n{told}"
    )
    print(text)
    if args.page:
        page = args.page.read_text(encoding="utf-8")
        args.page.write_text(fill_page(page, {"ablation": text}), encoding="utf-8")


if __name__ == "__main__":
    main()
