"""Check a model of transformers when it is loaded, so that it does not fail in the middle of a run.

The checks use the model: logits from hidden states, and sampling of padded prompts with a cache from which finished
rows are removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ludus.errors import UserError
from ludus.language.models.tokenizer import first_line

if TYPE_CHECKING:
    from ludus.language.models.foreign import ForeignModel


@torch.no_grad()
def check_family(model: ForeignModel, folder: Path) -> None:
    """Raise UserError, with the family's name, where Ludus cannot sample from this model or train it."""
    reason, exact = None, model.dtype == torch.float32
    try:
        if not torch.allclose(*_logits(model), atol=1e-3 if exact else 0.1):
            reason = "compute their logits in a way that Ludus does not know"
        elif not _similar(*_continued(model), 1e-3 if exact else 0.3):
            reason = "give other logits when padded prompts are continued from a cache"
    except Exception as error:  # each family raises different errors
        reason = f"cannot be sampled from with a cache ({type(error).__name__}: {first_line(error)})"
    if reason is not None:
        raise UserError(
            f"models of the family '{model.base.config.model_type}' {reason}",
            where=str(folder),
            fix="use a model of another family: docs/how-to/language-models.md lists those that work",
        )


def _logits(model: ForeignModel) -> tuple[Tensor, Tensor]:
    """Return the logits of a short sequence, computed as by learners and by transformers."""
    ids = torch.arange(1, 9, device=model.device)[None]
    ones = torch.ones_like(ids)
    ours = model.head(model.hidden(ids, ones.cumsum(1) - 1, ones, adapter=None), adapter=None)
    return ours, model.base(input_ids=ids).logits.float()


def _continued(model: ForeignModel) -> tuple[Tensor, Tensor]:
    """Return the logits after one more token of left-padded prompts, and those of each prompt alone.

    One of the prompts has finished and was removed, as in sampling.
    """
    prompts = [list(range(1, 9)), list(range(3, 8)), list(range(2, 9))]
    seen = torch.tensor([[0] * (8 - len(one)) + [1] * len(one) for one in prompts], device=model.device)
    ids = torch.tensor([[0] * (8 - len(one)) + one for one in prompts], device=model.device)
    positions = (seen.cumsum(1) - 1).clamp_min(0)
    _, cache = model.run(ids, positions, seen, None, model.new_cache())
    stay = torch.tensor([1, 2], device=model.device)
    cache.reorder_cache(stay)
    after = torch.tensor([[4], [5]], device=model.device)
    seen = torch.cat((seen[stay], torch.ones_like(after)), dim=1)
    hidden, _ = model.run(after, positions[stay, -1:] + 1, seen, None, cache)
    alone = [[*prompts[1], 4], [*prompts[2], 5]]
    theirs = [model.base(input_ids=torch.tensor([one], device=model.device)).logits[0, -1] for one in alone]
    return model.head(hidden[:, -1], adapter=None), torch.stack(theirs).float()


def _similar(ours: Tensor, theirs: Tensor, most: float) -> bool:
    """Return whether logits differ by less than `most` of their spread: padding changes the last bits."""
    return bool((ours - theirs).abs().mean() < most * theirs.std())
