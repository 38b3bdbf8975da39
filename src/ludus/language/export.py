"""A language run's adapter as a PEFT folder: adapter_config.json and adapter_model.safetensors."""

from __future__ import annotations

from pathlib import Path

from ludus.errors import UserError
from ludus.evaluation.export import Exported
from ludus.evaluation.load import LoadedPolicy

FILENAME = "adapter"


def export(policy: LoadedPolicy, path: Path) -> Exported:
    """Write the adapter of the best-rated learner. UserError for a run that trained all weights."""
    from ludus.language.models.peft_files import write_peft
    from ludus.language.players import best_learner

    assert policy.config is not None and policy.checkpoint is not None
    language = policy.config.language
    assert language is not None
    if language.adapter is None:
        raise UserError(
            f"'{policy.name}' trained all weights of its model and has no adapter",
            fix="train with language.adapter, as {rank: 32}",
        )
    with policy.checkpoint.understood():
        learner = best_learner(policy.checkpoint.state())
    prefix = f"{learner}."
    tensors = {
        key.removeprefix(prefix): value
        for key, value in policy.checkpoint.tensors("policy").items()
        if key.startswith(prefix)
    }
    adapter = language.adapter
    layers = {key.split(".lora_")[0].rpartition(".")[2] for key in tensors}
    write_peft(
        path, tensors, rank=adapter.rank, alpha=adapter.alpha, targets=sorted(layers), base=language.model
    )
    return Exported(
        files=(path,),
        notes=(f"the adapter of '{learner}', for the base model {language.model}",),
    )
