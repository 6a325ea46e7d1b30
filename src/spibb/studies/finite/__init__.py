"""The study on fixed processes: Wet Chicken, the gridworld, Gymnasium's toy-text environments."""
