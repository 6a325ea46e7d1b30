"""Print how far the GPU's RMSProp step, in Numba's simulator, is from plain NumPy."""

import numpy as np


def largest_difference():
    from spibb.deep.descent_cuda import launch

    rng = np.random.default_rng(0)
    params, v, gradient = rng.normal(size=(3, 4, 700)).astype(np.float32)
    v, rate = v**2, np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)
    diverged_at = np.array([-1, 7, -1, -1])
    gradient[1] = np.nan
    mean = np.float32(0.95) * v + np.float32(0.05) * gradient**2
    expected = params - rate[:, None] * gradient / (np.sqrt(mean) + np.float32(0.01))
    expected[1], mean[1] = params[1], v[1]
    launch((params, v, gradient, rate, diverged_at), decay=0.95, epsilon=0.01, stream=0)
    return max(np.abs(params - expected).max(), np.abs(v - mean).max())


if __name__ == "__main__":
    print(largest_difference())
