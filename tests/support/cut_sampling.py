"""A sampler whose call is ended between two tokens."""

from __future__ import annotations

import pytest

from ludus.language.models.local import LocalSampler
from ludus.language.models.sampling import Request


class Stopped(Exception):
    pass


def check_a_call_ended_between_tokens(sampler: LocalSampler, fresh: LocalSampler) -> None:
    """Check that `before_token` can end a call of `sampler`, and that it then samples what `fresh` does."""
    requests = [Request((1, 2, 3)), Request((4, 5, 6, 7))]
    seed = 3
    fresh.generator.manual_seed(seed)
    expected = [completion.tokens for completion in fresh.sample(requests)]
    passes: list[int] = []

    def before_token() -> None:
        passes.append(1)
        if len(passes) == 4:
            raise Stopped

    sampler._decoder.before_token = before_token
    with pytest.raises(Stopped):
        sampler.sample(requests)
    assert len(passes) == 4
    sampler.forget()
    sampler.generator.manual_seed(seed)
    assert [completion.tokens for completion in sampler.sample(requests)] == expected
