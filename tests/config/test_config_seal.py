"""A run's config.yaml says whether it is what the run wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config.loading import check_seal, load_config, sealed
from ludus.config.plain_yaml import read_yaml
from ludus.errors import ConfigError, UserError

TEXT = "env:\n  id: CartPole-v1\ntotal_timesteps: 1000\nseed: 7\n"


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    data = sealed(TEXT).encode()
    path.write_bytes(data)
    check_seal(path)
    for place in range(len(data)):
        changes = [data[:place]]
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            changes.append(bytes(changed))
        for change in changes:
            path.write_bytes(change)
            with pytest.raises(UserError):
                read(path)


def read(path: Path) -> None:
    check_seal(path)
    read_yaml(path)  # where the line no longer looks like a seal, the file is no longer YAML


def test_a_config_of_a_run_is_checked_and_one_elsewhere_is_not(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(sealed(TEXT).replace("seed: 7", "seed: 8"))
    assert load_config(path).config.seed == 8  # copied from a run and changed
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"config\.yaml is damaged") as caught:
        load_config(path)
    assert "delete its first line" in caught.value.fix
    path.write_text(TEXT.replace("seed: 7", "seed: 8"))
    assert load_config(path).config.seed == 8
