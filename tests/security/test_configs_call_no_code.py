"""A config, or the config of a run somebody sent, cannot call functions of its choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.cli.app import main
from ludus.errors import EXIT_USER_ERROR

ATTACKS = {
    "a wrapper that is no class": (
        "env: {{id: CartPole-v1, wrappers: [{{'pydoc:pipepager': {{cmd: 'touch {mark}'}}}}]}}"
    ),
    "a wrapper that is os.system": "env: {{id: CartPole-v1, wrappers: [{{'os:system': {{command: 'touch {mark}'}}}}]}}",
    "an extractor that is a function": (
        "env: CartPole-v1\npolicy: {{features_extractor: 'os:system', "
        "features_extractor_kwargs: {{command: 'touch {mark}'}}}}"
    ),
    "a YAML tag": "env: CartPole-v1\nname: !!python/object/apply:os.system ['touch {mark}']",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_a_config_names_is_called_unless_it_is_what_it_should_be(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "pwned"
    Path("evil.yaml").write_text(ATTACKS[attack].format(mark=mark) + "\nn_envs: 1\ntotal_timesteps: 2048\n")
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", "evil.yaml", "-q"]) == EXIT_USER_ERROR
    assert not mark.exists()
    assert sorted(tmp_path.rglob("*")) == before
    assert len(capsys.readouterr().err.strip().splitlines()) == 3
