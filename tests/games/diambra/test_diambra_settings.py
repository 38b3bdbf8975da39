"""DIAMBRA's settings are checked before an engine is used, also without the client."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.envs.make import choose_backend
from ludus.errors import ConfigError, UnknownName
from ludus.games.diambra.engines import check_number, engines
from ludus.games.diambra.games import GAMES, get_filter_keys
from ludus.games.diambra.plugin import GAME_IDS
from ludus.games.diambra.settings import filter_keys, settings_for

RELATIVE = {"role_relative": True}


def test_all_nine_games_are_listed() -> None:
    assert tuple(GAMES) == GAME_IDS and len(GAME_IDS) == 9


@pytest.mark.parametrize("game", GAMES)
def test_filter_keys_name_players_by_role_or_by_side(game: str) -> None:
    flat, nested = get_filter_keys(game, True), get_filter_keys(game, False)
    assert flat[:4] == nested[:4] == ["stage", "timer", "action", "frame"]
    assert {"own_side", "opp_side", "own_wins", "opp_wins"} <= set(flat)
    assert [key.replace("P1.", "own_").replace("P2.", "opp_") for key in nested] == flat
    assert len(set(flat)) == len(flat)


def test_filter_keys_of_a_team_game_have_the_health_of_each_fighter() -> None:
    assert {"own_health_1", "opp_health_2", "own_active_character"} <= set(get_filter_keys("tektagt", True))
    assert "own_health" not in get_filter_keys("tektagt", True)
    assert "own_super_max_count" in get_filter_keys("sfiii3n", True)


def test_an_unknown_game_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="sfiii4n") as caught:
        get_filter_keys("sfiii4n", True)
    assert "sfiii3n" in caught.value.fix


def test_frame_is_always_kept_and_auto_selects_the_keys_of_the_game() -> None:
    def kept(**wrappers: Any) -> list[str]:
        return filter_keys("doapp", settings_for("doapp", {"wrappers_settings": wrappers}).wrappers_settings)

    assert kept(filter_keys=["own_health"], **RELATIVE) == ["frame", "own_health"]
    assert kept() == []
    assert set(kept(filter_keys="auto", add_last_action=True, **RELATIVE)) == set(
        get_filter_keys("doapp", True)
    )
    assert "action" not in kept(filter_keys="auto", **RELATIVE)
    assert "P1_health" in kept(filter_keys="auto") and "own_health" not in kept(filter_keys="auto")


@pytest.mark.parametrize(
    ("kwargs", "key", "what"),
    [
        ({"dificulty": 3}, "dificulty", "unknown key 'dificulty'"),
        ({"difficulty": 9}, "difficulty", "1 to 8, got 9"),
        ({"difficulty": 0}, "difficulty", "greater than or equal to 1"),
        ({"step_ratio": 7}, "step_ratio", "less than or equal to 6"),
        ({"action_space": "BOX"}, "action_space", "DISCRETE"),
        ({"frame_shape": [84, 0, 1]}, "frame_shape", "both"),
        ({"frame_shape": [84, 84, 3]}, "frame_shape", "0 \\(colours\\) or 1"),
        ({"frame_shape": [84, 84]}, "frame_shape.2", "required"),
        ({"super_art": 4}, "super_art", "less than or equal to 3"),
        ({"fighting_style": 3}, "fighting_style", "1 to 2"),
        ({"continue_game": 2.0}, "continue_game", "less than or equal to 1"),
        ({"characters": ["Ken", "Ryu"]}, "characters", "1 characters per side"),
        ({"n_players": 2, "characters": "Ken"}, "characters", "list of two"),
        ({"seed": 3}, "seed", "every engine gets its own seed"),
        ({"recording_settings": {"dataset_paht": "x"}}, "recording_settings.dataset_paht", "unknown key"),
        ({"wrappers_settings": {"stack_frame": 4}}, "wrappers_settings.stack_frame", "unknown key"),
        ({"wrappers_settings": {"stack_frames": 49}}, "wrappers_settings.stack_frames", "48"),
        ({"wrappers_settings": {"stack_actions": 4}}, "wrappers_settings", "needs add_last_action"),
        ({"wrappers_settings": {"flatten": False}}, "wrappers_settings.flatten", "nested"),
        ({"wrappers_settings": {"no_op_max": 3}}, "wrappers_settings.no_op_max", "broken"),
        ({"wrappers_settings": {"repeat_action": 2}}, "wrappers_settings.repeat_action", "frame_skip"),
        ({"wrappers_settings": {"frame_shape": [84, 84, 0]}}, "wrappers_settings.frame_shape", "grey"),
        ({"wrappers_settings": {"wrappers": [["os.system"]]}}, "wrappers_settings.wrappers", "module:Class"),
        (
            {"wrappers_settings": {"filter_keys": ["own_helth"], **RELATIVE}},
            "wrappers_settings.filter_keys",
            "did you mean 'own_health'",
        ),
        (
            {"wrappers_settings": {"filter_keys": ["own_health"]}},
            "wrappers_settings.filter_keys",
            "no key 'own_health'",
        ),
    ],
)
def test_invalid_setting_names_its_key(kwargs: dict[str, Any], key: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        settings_for("sfiii3n", kwargs)
    assert caught.value.key == f"env.kwargs.{key}"


def test_an_unknown_filter_key_lists_the_known_ones_and_what_they_need() -> None:
    with pytest.raises(ConfigError) as caught:
        settings_for("sfiii3n", {"wrappers_settings": {"filter_keys": ["own_health"]}})
    assert "role_relative: true" in caught.value.fix and "P1_stun_bar" in caught.value.fix


def test_enum_names_of_the_client_are_accepted() -> None:
    for spelling in ("MULTI_DISCRETE", "SpaceTypes.MULTI_DISCRETE", "multi_discrete"):
        assert settings_for("doapp", {"action_space": spelling}).action_space == "MULTI_DISCRETE"
    assert settings_for("doapp", {"role": "Roles.P2"}).role == "P2"


def test_the_number_of_engines_is_the_number_of_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAMBRA_ENVS", "127.0.0.1:1001 127.0.0.1:1002")
    assert [engine.address for engine in engines()] == ["127.0.0.1:1001", "127.0.0.1:1002"]
    check_number(2)
    with pytest.raises(ConfigError, match="n_envs is 8, but DIAMBRA_ENVS has 2 engines") as caught:
        check_number(8)
    assert caught.value.key == "n_envs" and "n_envs=2" in caught.value.fix
    monkeypatch.delenv("DIAMBRA_ENVS")
    check_number(1)
    with pytest.raises(ConfigError, match="is not set"):
        check_number(2)


@pytest.mark.parametrize(
    "address", ["localhost", "localhost:", ":50051", "localhost:http", "localhost:99999"]
)
def test_invalid_engine_address_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAMBRA_ENVS", f"127.0.0.1:1001 {address}")
    with pytest.raises(ConfigError, match="invalid engine address") as caught:
        engines()
    assert address in str(caught.value)


def test_auto_gives_each_engine_a_worker_without_trying_one() -> None:
    assert choose_backend("diambra/sfiii3n", 8)[0] == "process"
