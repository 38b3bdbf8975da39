"""Use cases: the shipped ones against numbers computed by hand, and errors in own ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.config.plain_yaml import read_yaml, write_yaml
from ludus.errors import ConfigError, UnknownName
from ludus.games.unity.cdr import CdrError
from ludus.games.unity.episode import BadAnswer, CompiledUseCase, Episode, compile_use_case
from ludus.games.unity.hook import UseCaseHook
from ludus.games.unity.use_case import UseCase, shipped_use_cases

SHIPPED = Path(compile_use_case.__code__.co_filename).with_name("use_cases")


def scan(value: float = 5.0, rays: int = 20) -> dict[str, Any]:
    return {"range_min": 0.0, "range_max": 10.0, "ranges": [value] * rays, "tags": [0] * rays}


def tank(
    x: float = 0.0, y: float = 0.0, theta: float = 0.0, health: float = 100.0, **more: Any
) -> dict[str, Any]:
    return {
        "pose": {"x": x, "y": y, "theta": theta},
        "twist": {"y": 2.5, "theta": -5.0},
        "health_info": {"max_health": 100.0, "health": health},
        "smart_laser_scan": scan(),
        **more,
    }


def uc1(own: dict[str, Any], target: tuple[float, float] = (0.0, 5.0), timer: float = 0.0) -> dict[str, Any]:
    return {
        "tank": own,
        "target_pose": {"x": target[0], "y": target[1]},
        "target_trigger_sensor": {"timer_count": timer, "max_timer_count": 1.0},
    }


def answer(compiled: CompiledUseCase, state: dict[str, Any], **more: Any) -> bytes:
    return compiled.step_response.encode({"state": state, **more})


def test_three_use_cases_are_shipped_with_the_spaces_of_the_protocol() -> None:
    sizes = {name: compile_use_case(name) for name in shipped_use_cases()}
    assert {name: (c.action_space.shape, c.observation_space.shape) for name, c in sizes.items()} == {
        "uc1": ((2,), (25,)),
        "uc2": ((4,), (30,)),
        "uc3": ((4,), (120,)),
    }
    assert all(c.use_case.max_steps == 1_024 for c in sizes.values())
    assert sizes["uc3"].use_case.observation.lags == [0, 2, 4, 6]


def test_uc1_observation_matches_hand_computation() -> None:
    compiled = compile_use_case("uc1")
    # looking along -x (90 degrees to the left of y), the target at -x is straight ahead, 20 m away: direction (0, 1)
    obs, _ = Episode(compiled).begin(
        answer(compiled, uc1(tank(theta=90.0, health=50.0), target=(-20.0, 0.0)))
    )
    expected = [0.0, 1.0, 0.5, -1.0, *[0.5] * 20, 0.5]
    np.testing.assert_allclose(obs, expected, atol=1e-6)
    # nearer than 10 m the direction is the offset in tens of metres
    obs, _ = Episode(compiled).begin(answer(compiled, uc1(tank(), target=(3.0, 4.0))))
    np.testing.assert_allclose(obs[:2], [0.3, 0.4], atol=1e-6)


def test_uc1_rewards_and_termination() -> None:
    compiled = compile_use_case("uc1")
    episode = Episode(compiled)
    episode.begin(answer(compiled, uc1(tank())))
    none = np.zeros(2)
    _, reward, terminated, truncated, _ = episode.step(none, answer(compiled, uc1(tank(y=1.0))))
    assert reward == pytest.approx(0.1 * 1.0 - 0.01)  # a metre nearer
    assert (terminated, truncated) == (False, False)
    _, reward, _, _, _ = episode.step(none, answer(compiled, uc1(tank(y=1.0, health=90.0))))
    assert reward == pytest.approx(-2.0 * 0.1 - 0.01)
    _, reward, terminated, _, info = episode.step(
        none, answer(compiled, uc1(tank(y=1.0, health=90.0), timer=1.0))
    )
    assert (reward, terminated, info) == (pytest.approx(2.0 - 0.01), True, {"is_success": True})
    episode.begin(answer(compiled, uc1(tank())))
    _, reward, terminated, _, info = episode.step(none, answer(compiled, uc1(tank(health=0.0))))
    assert (reward, terminated, info) == (pytest.approx(-2.0 - 2.0 - 0.01), True, {"is_success": False})


def test_episode_is_truncated_after_max_steps() -> None:
    compiled = compile_use_case("uc1")
    episode = Episode(compiled, max_steps=2)
    same = answer(compiled, uc1(tank()))
    episode.begin(same)
    ends = [episode.step(np.zeros(2), same)[2:4] for _ in range(2)]
    assert ends == [(False, False), (False, True)]


def test_an_action_becomes_the_fields_of_the_request() -> None:
    compiled = compile_use_case("uc3")
    request = Episode(compiled).request(np.array([0.5, -2.0, 1.0, 0.1], dtype=np.float32))
    sent = compiled.step_request.decode(request)
    assert sent["action"]["tank"]["target_twist"] == {"x": 0.0, "y": 2.5, "theta": -5.0}
    assert sent["action"]["tank"]["turret_actuator"] == {"rotation_speed": 5.5, "fire": True}
    assert sent["request_sent_timestamp"]["sec"] > 1_700_000_000
    assert compiled.reset_request.decode(Episode(compiled).reset_request(None))["reset"] is True


def test_lags_add_previous_frames_and_zeros_before_the_first() -> None:
    compiled = compile_use_case("uc3")
    episode = Episode(compiled)
    enemy = {"pose": {"y": 20.0}, "health_info": {"max_health": 100.0, "health": 100.0}}

    def at(health: float) -> bytes:
        return answer(compiled, {"tank": tank(health=health), "target_tank": enemy})

    place = 24  # of the own health in a frame: 2 + 1 + 1 + 20 numbers before it
    obs, _ = episode.begin(at(100.0))
    assert [obs[place + 30 * k] for k in range(4)] == [1.0, 0.0, 0.0, 0.0]
    for health in (90.0, 80.0, 70.0, 60.0, 50.0):
        obs = episode.step(np.zeros(4), at(health))[0]
    np.testing.assert_allclose([obs[place + 30 * k] for k in range(4)], [0.5, 0.7, 0.9, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (uc1(tank(smart_laser_scan=scan(rays=18))), "gives 23 observations, expected 25.*scan 18"),
        (uc1(tank(x=float("nan"))), "NaN or infinite"),
        (uc1(tank(x=float("inf"))), "NaN or infinite|does not match"),
    ],
)
def test_invalid_answer_raises_with_the_reason(state: dict[str, Any], what: str) -> None:
    compiled = compile_use_case("uc1")
    with pytest.raises(BadAnswer, match=what):
        Episode(compiled).begin(answer(compiled, state))


def test_answer_of_another_use_case_raises() -> None:
    compiled, other = compile_use_case("uc1"), compile_use_case("uc2")
    enemy = {"pose": {"y": 20.0}, "health_info": {"max_health": 100.0, "health": 100.0}}
    with pytest.raises((CdrError, BadAnswer)):
        Episode(compiled).begin(other.step_response.encode({"state": {"tank": tank(), "target_tank": enemy}}))


def own(tmp_path: Path, **changes: Any) -> str:
    data, _ = read_yaml(SHIPPED / "uc1.yaml")
    data = copy.deepcopy(data)
    for key, value in changes.items():
        node = data
        *parts, last = key.split("__")
        for part in parts:
            node = node[part]
        node[last] = value
    path = tmp_path / "my case.yaml"
    path.write_text(write_yaml(data), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("changes", "what", "key"),
    [
        ({"observation__parts": ["directoin"]}, "unknown quantity 'directoin'", "parts"),
        ({"quantities__speed": {"scaled": "state.tank.twist.z", "by": 1}}, "neither a quantity nor a field", "speed"),
        ({"quantities__speed": {"scaled": "state.tank.twist.y"}}, "needs 'by'", "speed"),
        ({"quantities__speed": {"eval": "1"}}, "one operation", "speed"),
        ({"quantities__speed": {"ratio": ["distance"]}}, "takes 2", "speed"),
        ({"quantities__speed": {"norm": "offset", "by": 2}}, "no option 'by'", "speed"),
        ({"action__fields": [{"to": "action.tank.speed", "index": 0}]}, "unknown field of StepRequest", "fields"),
        ({"action__fields": [{"to": "action.tank.target_twist.y", "index": 2}]}, "2 out of range 0 to 1", "fields"),
        ({"messages__Pose2D": {"x": "flot32"}}, "unknown type 'flot32'", "x"),
        ({"services__step__request": "StepReqest"}, "unknown message", "request"),
        ({"reset__values": {"rest": True}}, "unknown field of ResetRequest", "reset"),
        ({"hook": "os:system"}, "not a subclass", "hook"),
        ({"hook": "no_such_module:Hook"}, "not a subclass", "hook"),
        ({"observation__lags": [0, 0]}, "different integers", "lags"),
        ({"rewrad": []}, "unknown key 'rewrad'", "rewrad"),
        ({"reward": [{"quantity": "nearer", "constant": 1.0}]}, "either a quantity or a constant", "reward"),
        ({"timestamps__received": "when"}, "unknown field of Response", "received"),
        ({"observation__camera": {"height": 2}}, "greater than or equal to 8", "height"),
    ],
)  # fmt: skip
def test_error_in_a_use_case_names_its_line(
    tmp_path: Path, changes: dict[str, Any], what: str, key: str
) -> None:
    path = own(tmp_path, **changes)
    with pytest.raises(ConfigError, match=what) as caught:
        compile_use_case(path)
    where = str(caught.value.where)
    assert where.startswith(f"{path}, line ")
    line = Path(path).read_text("utf-8").splitlines()[int(where.rpartition(" ")[2]) - 1]
    assert key in line


def test_unknown_use_case_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'uc1'"):
        compile_use_case("uc11")
    with pytest.raises(ConfigError, match=r"use case .* not found"):
        compile_use_case("nowhere.yaml")


class Doubling(UseCaseHook):
    """Overrides every method of a hook."""

    def begin(self, message: Any, values: Any) -> None:
        self.began = True

    def request(self, action: Any, request: Any) -> Any:
        request["action"]["tank"]["target_twist"]["x"] = 7.0
        return request

    def observation(self, message: Any, values: Any, numbers: Any) -> Any:
        return 2.0 * numbers

    def reward(self, message: Any, values: Any, action: Any, reward: float) -> float:
        return reward + values["distance"] + float(action[0])

    def terminated(self, message: Any, values: Any, terminated: bool) -> bool:
        return values["distance"] > 4.0

    def info(self, message: Any, values: Any) -> dict[str, Any]:
        return {"distance": values["distance"]}


def test_hook_changes_all_results(tmp_path: Path) -> None:
    compiled = compile_use_case(own(tmp_path, hook=f"{__name__}:Doubling"))
    episode = Episode(compiled)
    obs, info = episode.begin(answer(compiled, uc1(tank())))
    assert obs[1] == pytest.approx(1.0) and info == {"distance": 5.0}
    _, reward, terminated, _, _ = episode.step(np.array([0.5, 0.0]), answer(compiled, uc1(tank())))
    assert (reward, terminated) == (pytest.approx(-0.01 + 5.0 + 0.5), True)
    sent = compiled.step_request.decode(episode.request(np.zeros(2)))
    assert sent["action"]["tank"]["target_twist"]["x"] == 7.0


def test_seeds_are_sent_to_a_simulator_that_accepts_them(tmp_path: Path) -> None:
    path = own(
        tmp_path,
        messages__ResetRequest={"request_sent_timestamp": "Time", "reset": "bool", "seed": "int32"},
        reset__seed="seed",
    )
    compiled = compile_use_case(path)
    assert compiled.reset_request.decode(Episode(compiled).reset_request(2**31 + 5))["seed"] == 6


def test_shipped_use_cases_match_the_schema() -> None:
    for name in shipped_use_cases():
        data, _ = read_yaml(SHIPPED / f"{name}.yaml")
        assert UseCase.model_validate(data).name == name
