"""Every metric has a figure on a page, known or not."""

from __future__ import annotations

from ludus.reports.arranging import MAX_LINES, arrange


def places(*names: str) -> dict[str, dict[str, list[str]]]:
    return {
        chapter.title: {drawing.title: list(drawing.lines.values()) for drawing in chapter.drawings}
        for chapter in arrange(names)
    }


def test_known_metrics_have_their_sections_in_order() -> None:
    found = places(
        *(
            "time/fps",
            "time/cpu_cores",
            "time/seconds",
            "train/loss",
            "train/entropy_loss",
            "train/approx_kl",
        ),
        *("train/grad_norm", "train/learning_rate", "eval/mean_reward", "eval/std_reward", "updates"),
        *("rollout/ep_len_mean", "rollout/ep_rew_mean"),
    )
    assert list(found) == [
        *("Learning", "Evaluation", "Losses", "Policy and value", "Norms", "Schedules", "Throughput"),
        "System load",
    ]
    assert list(found["Learning"]) == ["reward", "episode length"]
    assert list(found["Policy and value"]) == ["approximate KL divergence", "entropy loss"]
    assert list(found["Evaluation"]) == ["reward"]


def test_metrics_of_three_parts_share_a_figure_and_many_are_cut() -> None:
    versions = [f"league/frequency/learner@{index}" for index in range(30)]
    found = places(
        "reward/Nim/0/game", "reward/Nim/1/game", "winrate/Nim/x", "winrate/Nim/x/games", *versions
    )
    assert found["Rewards"] == {"Nim": ["seat 0, game", "seat 1, game"]}
    assert found["Win rates"] == {"Nim": ["x"]}
    assert len(found["League"]["how often each is drawn as opponent"]) == MAX_LINES


def test_unknown_prefix_has_its_own_section() -> None:
    found = places("my_env/gold", "odd")
    assert found["My env"] == {"gold": [""]}
    assert found["Odd"] == {"odd": [""]}


def test_antes_and_percentiles_of_balatro_share_a_figure() -> None:
    found = places(
        "balatro/cleared_ante_1", "balatro/cleared_ante_2", "balatro/ante_p50", "eval/cleared_ante_4"
    )
    assert found["Balatro"]["share of games that cleared an ante"] == ["1", "2"]
    assert found["Balatro"]["ante, median and 90th percentile"] == ["p50"]
    assert found["Evaluation"] == {"share of games that cleared an ante": ["4"]}
