"""A GPU for the driver process of a run, reserved in Ray: Ray does not see a GPU that a driver uses."""

from __future__ import annotations

import os
from typing import Any

from ludus.errors import UserError
from ludus.scale.cluster import RaySession, import_ray

_WAIT_SECONDS = 60.0


class HeldGPU:
    """One GPU of this machine, reserved in Ray. `index` is its number in torch."""

    def __init__(self, session: RaySession) -> None:
        ray = import_ray()
        self._session = session
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            node_id=ray.get_runtime_context().get_node_id(), soft=False
        )
        self._holder = ray.remote(_Holder).options(num_cpus=0, num_gpus=1, scheduling_strategy=here).remote()
        try:
            (given,) = ray.get(self._holder.given.remote(), timeout=_WAIT_SECONDS)
        except ray.exceptions.GetTimeoutError as error:
            self.close()
            raise UserError(
                "Ray has no GPU left on this machine for the first learner",
                where="scale",
                fix="start the run where one is free, or lower scale.num_actors",
            ) from error
        self.index = _as_seen_here(str(given))

    def close(self) -> None:
        import_ray().kill(self._holder)
        self._session.close()


class _Holder:
    """Actor that holds the resources Ray has reserved for it."""

    def given(self) -> list[Any]:
        return list(import_ray().get_gpu_ids())


def _as_seen_here(given: str) -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return int(given) if not visible else visible.split(",").index(given)
