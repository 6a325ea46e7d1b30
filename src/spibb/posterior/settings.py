"""The settings of the posterior model, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from spibb.errors import SettingsError, checked_number


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Prior and settings of :class:`spibb.posterior.model.PosteriorModel`.

    They were chosen on the development half of the generators of `spibb.studies.generators`.

    Args:
        equal_actions: Prior probability that the actions of a group of states do not differ.
        event_threshold: A row whose outcome r + gamma V(x') lies so many robust standard deviations
            from the mean of its state is a rare event.
        event_prior: Pseudo-count of events in the rate of rare events of an action.
        prior_losses: Pseudo-count of pairs, and of actions, that have rare losses of their own.
        prior_groups: Pseudo-count of all pairs, and of all actions, those with losses included.
        dispersion: Factor on standard deviations of first order. They leave out what is not linear
            and that no prior is exactly right; with this factor, 95 % intervals cover 94 % of the
            true gains on the development half.
    """

    equal_actions: float = 0.2
    event_threshold: float = 5.0
    event_prior: float = 0.2
    prior_losses: float = 1.0
    prior_groups: float = 2.0
    dispersion: float = 1.6

    def __post_init__(self) -> None:
        checked_number(self.equal_actions, "equal_actions", "a probability", least=0.0, most=1.0)
        for name in (
            "event_threshold",
            "event_prior",
            "prior_losses",
            "prior_groups",
            "dispersion",
        ):
            checked_number(getattr(self, name), name, "a number >= 0", least=0.0)
        if self.prior_losses > self.prior_groups:
            raise SettingsError(
                f"prior_losses is {self.prior_losses:g}, and prior_groups {self.prior_groups:g}",
                expected="at most as many: pairs with losses are a part of all pairs",
            )
