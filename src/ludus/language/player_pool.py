"""The players of a run by name: learners, their frozen versions with their weights, and other opponents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from ludus.config.language import LanguageConfig
from ludus.errors import CheckpointError
from ludus.language.models.engine import PublishedSampler
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import LanguageModel
from ludus.language.models.sampling import Sampler
from ludus.language.players import LanguagePlayer
from ludus.league.players import Player, TokenUse
from ludus.runs.atomic import write_atomic
from ludus.runs.manifest import file_digest, is_plain_filename


class PlayerPool:
    """The player of every member of the league.

    A learner plays with the adapter that is being trained. A frozen version has an adapter of its own, and a file
    under `folder`, written once, from which a resumed run loads it. `make_player` makes all other players.
    """

    folder: Path

    def __init__(
        self,
        model: LanguageModel,
        sampler: Sampler,
        config: LanguageConfig,
        learners: Sequence[str],
        make_player: Callable[[str], Player],
    ) -> None:
        self.learners = tuple(learners)
        self._model = model
        self._sampler = sampler
        self._config = config
        self._make_player = make_player
        self._players: dict[str, Player] = {}
        self._hashes: dict[str, str] = {}
        for name in learners:
            self._players[name] = self._language_player(name, sampler, 0)
            self._send_weights(name)

    def player(self, name: str) -> Player:
        """Return the player called `name`; it is created by the first call."""
        if name not in self._players:
            self._players[name] = self._make_player(name)
        return self._players[name]

    def learner_with(self, name: str, sampler: Sampler) -> Player:
        """Return the learner `name` with another sampler, so that evaluations do not use that of training."""
        return self._language_player(name, sampler, self.version(name))

    def version(self, name: str) -> int:
        """Return the number of updates of the player's weights."""
        return int(getattr(self._players[name], "version", 0))

    def publish(self, name: str, version: int) -> None:
        """Let this learner play with its current weights, after `version` updates."""
        player: Any = self._players[name]
        player.version = version
        self._send_weights(name)

    def freeze(self, learner: str, name: str) -> None:
        """Keep the current weights of `learner` as the player `name`."""
        tensors = self.weights(learner)
        payload = safetensors.torch.save({key: value.cpu().contiguous() for key, value in tensors.items()})
        self._hashes[name] = hashlib.sha256(payload).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self._file(name), payload)
        self._add_version(name, tensors, self.version(learner))

    def weights(self, name: str) -> dict[str, Tensor]:
        """Return a copy of the weights of this learner or version."""
        return {key: value.detach().clone() for key, value in self._model.adapter_tensors(name).items()}

    def drop(self, name: str) -> None:
        """Remove a frozen version. Its file stays as long as a checkpoint may need it: see `prune`."""
        self._model.remove_adapter(name)
        if isinstance(self._sampler, PublishedSampler):
            self._sampler.withdraw(name)
        del self._players[name], self._hashes[name]

    def prune(self, needed: Set[str]) -> None:
        """Remove the files of versions that are neither players nor `needed`."""
        for path in self.folder.glob("*.safetensors"):
            if path.stem not in needed and path.stem not in self._hashes:
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Clear the samplers' caches: a resumed run starts without them, and must draw the same."""
        players = (player for player in self._players.values() if isinstance(player, LanguagePlayer))
        for sampler in {id(player.sampler): player.sampler for player in players}.values():
            sampler.forget()

    def take_token_use(self) -> dict[str, TokenUse]:
        """Return what the remote models used since the last call, by player."""
        found = {name: player.take_token_use() for name, player in self._players.items()}
        return {name: use for name, use in found.items() if use is not None}

    def sampling_time(self) -> tuple[float, float]:
        """Return the seconds that the learners' sampler has spent on prompts, and on completions."""
        if not isinstance(self._sampler, LocalSampler):
            return 0.0, 0.0
        return self._sampler.work.prefill_seconds, self._sampler.work.decode_seconds

    def state_dict(self) -> dict[str, Any]:
        """Return the frozen versions, with the hashes of their files and how many updates each had seen."""
        return {
            name: {"sha256": digest, "version": self.version(name)} for name, digest in self._hashes.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the frozen versions from their files. CheckpointError when one is missing or damaged."""
        for name in list(self._hashes):
            self.drop(name)
        for name, known in state.items():
            path = self._file(name)
            if not is_plain_filename(name.replace("@", "", 1)):  # the path must stay inside the run
                raise CheckpointError(f"{name!r} does not name a frozen version", where=str(self.folder))
            try:
                found = file_digest(path)
            except OSError as error:
                raise CheckpointError(
                    f"the frozen version '{name}' cannot be read ({error.strerror})",
                    where=str(path),
                    fix="resume from another checkpoint, with --checkpoint",
                ) from error
            if found != known["sha256"]:
                raise CheckpointError(
                    f"the frozen version '{name}' is damaged: its hash is not the one that was saved",
                    where=str(path),
                    fix="restore the file from a copy, or resume from a checkpoint before it",
                )
            self._add_version(name, _read_weights(path), int(known["version"]))
            self._hashes[name] = found

    def _add_version(self, name: str, tensors: Mapping[str, Tensor], version: int) -> None:
        config = self._config.adapter
        self._model.add_adapter(name, None if config is None else config.without_start())
        self._model.load_adapter_tensors(name, tensors)
        for parameter in self._model.trainable(name):
            parameter.requires_grad_(False)
        self._players[name] = self._language_player(name, self._sampler, version, kind="version")
        self._send_weights(name)

    def _send_weights(self, name: str) -> None:
        """Send the player's current weights to a sampler that has weights of its own."""
        if isinstance(self._sampler, PublishedSampler):
            self._sampler.publish(name, self._model.adapter_tensors(name))

    def _language_player(
        self, name: str, sampler: Sampler, version: int, kind: Any = "learner"
    ) -> LanguagePlayer:
        return LanguagePlayer(
            name,
            self._model.tokenizer,
            sampler,
            name,
            version=version,
            kind=kind,
        )

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a frozen version; CheckpointError where the file is not valid safetensors."""
    try:
        return safetensors.torch.load_file(path)
    # the parser may raise anything for damaged bytes
    except Exception as error:
        raise CheckpointError(
            f"the frozen version '{path.stem}' is not valid safetensors ({error})", where=str(path)
        ) from error
