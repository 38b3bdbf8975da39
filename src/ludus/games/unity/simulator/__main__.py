"""`python -m ludus.games.unity.simulator`: the stand-in with the command line of a Unity build."""

from __future__ import annotations

import argparse
import asyncio
import contextlib

from ludus.games.unity.simulator.client import SELF, StandInOptions, run_simulators
from ludus.games.unity.use_case import shipped_use_cases


def main() -> None:
    parser = argparse.ArgumentParser(description=SELF)
    parser.add_argument("--use-case", choices=shipped_use_cases(), default="uc1")
    parser.add_argument("--ros-ip", default="127.0.0.1")
    parser.add_argument("--ros-port", type=int, default=10_000)
    parser.add_argument("--environment-id", type=int, default=0)
    parser.add_argument("--sample-time", type=float, default=0.0)
    parser.add_argument("--fixed-delta-time", type=float, default=0.01)
    parser.add_argument("--fixed-updates-per-step", type=int, default=10)
    for ignored in ("--pause", "--time-scale"):  # it always pauses between steps, and runs at full speed
        parser.add_argument(ignored)
    parser.add_argument("--headless", action="store_true")
    given = parser.parse_args()
    sample_time = given.sample_time or given.fixed_delta_time * given.fixed_updates_per_step
    options = StandInOptions(given.use_case, sample_time=sample_time)
    print(f"{SELF}: use case {given.use_case}, env {given.environment_id}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            run_simulators(
                1,
                given.ros_ip,
                given.ros_port,
                options,
                first=given.environment_id,
                say=lambda text: print(text, flush=True),
            )
        )


if __name__ == "__main__":
    main()
