"""Stable-Baselines3 on one workload: `python sb3.py '{…}'` prints one JSON object. Imports nothing of Ludus.

Torch gets the number of threads that is faster for SB3: one for the small networks, all cores for SAC's.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(workload: dict) -> None:
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env

    threads = (os.cpu_count() or 1) if workload["algorithm"] == "SAC" else 1
    torch.set_num_threads(threads)
    algorithm = getattr(stable_baselines3, workload["algorithm"])
    arch = workload["net_arch"]
    kwargs = {
        "net_arch": {"pi": arch, "vf": arch} if workload["algorithm"] in {"PPO", "A2C"} else arch,
        "activation_fn": getattr(torch.nn, workload["activation"]),
    }
    env = make_vec_env(workload["env"], n_envs=workload["n_envs"], seed=0)
    model = algorithm(
        "MlpPolicy", env, policy_kwargs=kwargs, device="cpu", seed=0, verbose=0, **workload["hyperparams"]
    )
    warm = max(workload["hyperparams"].get("n_steps", 200) * workload["n_envs"], 300)
    model.learn(warm)  # first calls are slow everywhere
    started = time.monotonic()
    model.learn(workload["steps"], reset_num_timesteps=False)
    seconds = time.monotonic() - started
    steps = model.num_timesteps - warm
    print(json.dumps({"fps": steps / seconds, "threads": threads, "version": stable_baselines3.__version__}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
