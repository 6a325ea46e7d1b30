"""A generator of random problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spibb.errors import SettingsError
from spibb.studies.generators.instance import Instance
from spibb.studies.generators.relabelling import with_actions_shuffled

Make = Callable[[np.random.Generator], Instance]

# A largest gain is clear if it is this share of the largest loss, or more.
_LEAST_SHARE = 0.01
_NUMERICAL = 1e-6
_MOST_DRAWS = 100


@dataclass(frozen=True)
class Generator:
    """A way to draw random problems.

    Attributes:
        name: Short name.
        title: What figures and tables call it.
        family: What its problems have in common with those of other generators.
        about: One sentence about its problems.
        make: Draws a problem, whatever its largest possible gain.
        has_gain: Whether a policy can be better than the baseline.
    """

    name: str
    title: str
    family: str
    about: str
    make: Make
    has_gain: bool = True

    @classmethod
    def of(cls, make: Make, family: str, title: str, *, has_gain: bool = True) -> Generator:
        """Return the generator of a function, with its name and the first line of its docstring."""
        about = (make.__doc__ or "").partition("\n")[0].removeprefix("Draw ")
        name = getattr(make, "__name__", "").replace("_", "-")
        return cls(name, title, family, about[:1].upper() + about[1:], make, has_gain)

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw a problem; one without a clear gain is drawn again where there should be one.

        A gain is clear where the optimum is better than the baseline by at least 1 % of what the
        worst policy is worse.

        Args:
            rng: Source of randomness.
        """
        for _ in range(_MOST_DRAWS):
            instance = with_actions_shuffled(self.make(rng), rng)
            if not self.has_gain or _is_clear(instance):
                return replace(instance, has_gain=self.has_gain)
        raise SettingsError(f"the generator {self.name} draws no problem with a clear gain")


def _is_clear(instance: Instance) -> bool:
    least = max(_LEAST_SHARE * instance.range_of_loss(), _NUMERICAL)
    return instance.range_of_gain() > least
