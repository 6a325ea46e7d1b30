"""What a policy does in an environment of Gymnasium, as a log."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from spibb.data.discrete_spaces import discrete_space
from spibb.data.log import Log
from spibb.errors import PolicyError, checked_whole
from spibb.mdp.policy import TabularPolicy


def roll_out(
    env: gymnasium.Env[Any, Any],
    policy: TabularPolicy | ArrayLike,
    *,
    n_episodes: int,
    max_steps: int = 1_000,
    rng: np.random.Generator,
) -> Log:
    """Let a policy act in an environment with discrete observations and actions.

    Args:
        env: The environment.
        policy: A distribution over the actions for every observation, in their order.
        n_episodes: How many episodes.
        max_steps: Steps after which an episode that goes on is cut off.
        rng: Source of randomness, of the environment too.

    Example:
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> walk = np.full((16, 4), 0.25)
        >>> log = roll_out(env, walk, n_episodes=3, rng=np.random.default_rng(0))
        >>> log.n_episodes, log.n_states, log.n_actions
        (3, 16, 4)
    """
    n_episodes, max_steps = (
        checked_whole(n_episodes, "n_episodes"),
        checked_whole(max_steps, "max_steps"),
    )
    source = "the environment"
    n_states, first_state, state_labels = discrete_space(
        env.observation_space, "observations", source
    )
    n_actions, first_action, action_labels = discrete_space(env.action_space, "actions", source)
    table = policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)
    if table.probabilities.shape != (n_states, n_actions):
        raise PolicyError(
            f"a policy of shape {table.probabilities.shape}",
            expected=f"({n_states}, {n_actions}), as the environment has states and actions",
        )
    # The total is 1 up to rounding; drawing below it keeps the last action in range.
    reached = table.probabilities.cumsum(axis=1)
    rows: list[tuple[Any, ...]] = []
    for episode in range(n_episodes):
        seen, _ = env.reset(seed=int(rng.integers(2**31)))
        for step in range(max_steps):
            state = int(seen) - first_state
            draw = rng.random() * reached[state, -1]
            action = int(np.searchsorted(reached[state], draw, side="right"))
            seen, reward, terminated, truncated, _ = env.step(action + first_action)
            is_cut = bool(truncated) or step + 1 == max_steps
            following = int(seen) - first_state
            ends = bool(terminated), is_cut and not terminated
            rows.append((episode, step, state, action, float(reward), following, *ends))
            if terminated or is_cut:
                break
    names = "episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated"
    columns: dict[str, Any] = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    return Log.from_arrays(
        **columns,
        n_states=n_states,
        n_actions=n_actions,
        state_labels=state_labels,
        action_labels=action_labels,
    )
