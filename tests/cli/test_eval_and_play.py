"""`ludus eval` and `ludus play`: policies by name, on their own env or another."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command

from ludus.runs.checkpoints import CheckpointManager


def test_eval_reports_policy_env_and_rewards(ludus: Command, run: Path) -> None:
    outcome = ludus("eval", "latest", "--episodes", 5, "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json
    assert found["episodes"] == 5
    assert found["min_reward"] <= found["mean_reward"] <= found["max_reward"]
    assert found["std_reward"] >= 0
    assert found["mean_length"] == found["mean_reward"]  # CartPole gives 1 a step
    assert (found["policy"], found["env"], found["run"]) == ("latest", "CartPole-v1", str(run))
    assert found["checkpoint"] in {"000000000256", "000000000512"}


def test_eval_ends_where_episodes_do_not_and_says_how_many_were_cut(ludus: Command) -> None:
    command = ["eval", "random", "--env", "CliffWalking-v1", "--episodes", 3, "--max-steps", 20]
    outcome = ludus(*command, "--json")
    assert outcome.json["capped_episodes"] == 3 and outcome.json["mean_length"] == 20
    assert "3 of 3 episodes, which did not end (--max-steps)" in ludus(*command).out


def test_the_same_seed_plays_the_same_episodes_also_when_actions_are_sampled(
    ludus: Command, run: Path
) -> None:
    for manner in ([], ["--stochastic"]):
        first, second = (ludus("eval", run, "-n", 4, "--seed", 3, "--json", *manner).json for _ in range(2))
        assert first == second
    one, other = (ludus("eval", run, "-n", 20, "--seed", seed, "--stochastic", "-q").out for seed in (0, 100))
    assert one != other
    assert ludus("eval", "random", "--env", "CartPole-v1", "-n", 4, "--json").json == (
        ludus("eval", "random", "--env", "CartPole-v1", "-n", 4, "--json").json
    )


@pytest.mark.parametrize(("which", "step"), [("latest", 512), ("256", 256), ("000000000256", 256)])
def test_a_checkpoint_is_named_after_the_run(which: str, step: int, ludus: Command, run: Path) -> None:
    outcome = ludus("eval", f"tiny@{which}", "-n", 1, "--json")
    assert outcome.json["checkpoint"] == f"{step:012d}"


def test_quiet_eval_prints_the_mean_reward_alone(ludus: Command, run: Path) -> None:
    outcome = ludus("eval", run, "-n", 2, "-q")
    assert float(outcome.out) == ludus("eval", run, "-n", 2, "--json").json["mean_reward"]


def test_a_policy_is_not_seated_at_an_env_it_does_not_fit(ludus: Command, run: Path) -> None:
    outcome = ludus("eval", run, "--env", "Acrobot-v1")
    assert outcome.code == 2
    assert "observes 4 numbers, but 'Acrobot-v1' has 6 numbers" in outcome.error_lines[0]
    assert ludus("eval", run, "--env", "CartPole-v0", "-n", 1, "--json").json["env"] == "CartPole-v0"


def test_runs_are_looked_for_below_root(ludus: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").rename(tmp_path / "else where")
    assert ludus("eval", "latest", "-n", 1).code == 2
    assert ludus("eval", "latest", "-n", 1, "--root", "else where").code == 0


def test_without_a_screen_play_records_a_video_into_the_run_and_says_so(
    ludus: Command, run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("av")
    outcome = ludus("play", "latest", "--seed", 1, "--json")
    assert outcome.code == 0, outcome.err
    assert "there is no screen here" in outcome.err
    video = Path(outcome.json["video"])
    assert video.parent == run / "videos"
    assert (tmp_path / video).stat().st_size > 1000
    assert (outcome.json["episodes"], len(outcome.json["rewards"])) == (1, 1)


def test_a_video_of_a_bot_goes_to_this_folder_or_the_given_path(ludus: Command, tmp_path: Path) -> None:
    pytest.importorskip("av")
    here = ludus("play", "random", "--env", "CartPole-v1", "--json")
    assert (tmp_path / here.json["video"]).parent == tmp_path
    asked = ludus("play", "random", "--env", "CartPole-v1", "-n", 2, "--video", "clips/two.mp4", "--json")
    assert (tmp_path / "clips" / "two.mp4").is_file()
    assert len(asked.json["rewards"]) == 2


def test_with_a_screen_play_opens_a_window(ludus: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    outcome = ludus("play", "random", "--env", "CartPole-v1", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["video"] is None
    assert len(outcome.json["rewards"]) == 1


def test_an_env_that_draws_nothing_is_not_played(ludus: Command, tmp_path: Path) -> None:
    (tmp_path / "blind.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n"
        "class Blind(CartPoleEnv):\n"
        "    metadata = {'render_modes': []}\n\n"
        "gymnasium.register('Blind-v0', Blind)\n"
    )
    outcome = ludus("play", "random", "--env", "blind:Blind-v0")
    assert outcome.code == 2
    assert "does not render pictures" in outcome.error_lines[0]


def test_an_env_without_keys_cannot_be_played_by_hand(
    ludus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    outcome = ludus("play", "human", "--env", "Pendulum-v1")
    assert outcome.code == 2
    assert "no keys are known for 'Pendulum-v1'" in outcome.error_lines[0]


def test_a_random_policy_is_not_called_deterministic(ludus: Command) -> None:
    outcome = ludus("eval", "random", "--env", "CartPole-v1", "-n", "2", "--json")
    assert outcome.json["deterministic"] is False and "sampled actions" in outcome.err


def test_export_names_the_run_and_the_step_it_exports(ludus: Command, run: Path, tmp_path: Path) -> None:
    manager = CheckpointManager(tmp_path / run / "checkpoints")
    manager.mark_best(manager.find(256), "eval/mean_reward", 1e6)
    outcome = ludus("export", "latest", "--to", "torchscript")
    assert outcome.code == 0, outcome.err
    assert f"{run.name} at step 256" in outcome.out and "of step 512, is latest@latest" in outcome.out


def test_commands_for_whole_runs_say_what_is_wrong_with_a_checkpoint(ludus: Command, run: Path) -> None:
    outcome = ludus("report", "latest@best")
    assert outcome.code == 2 and "a whole run is expected here" in outcome.error_lines[0]
    outcome = ludus("eval", "latest@bset")
    assert outcome.code == 2 and "latest@best, latest@latest, latest@000000000256" in outcome.err
