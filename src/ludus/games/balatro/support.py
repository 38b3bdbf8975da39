"""Env support of Balatro: all games of a run, and of an evaluation, are stepped in one compiled call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.envs.support import EnvSupport

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec


class BalatroSupport(EnvSupport):
    batched_evaluation = True

    def batched_unsupported_reason(self, spec: EnvSpec) -> str | None:
        if spec.wrappers or spec.frame_stack > 1 or spec.frame_skip > 1:
            return "the env has wrappers"
        return "it cannot render images" if spec.render_mode is not None else None


SUPPORT = BalatroSupport()
