"""The page of a comparison: one self-contained HTML file, including Plotly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ludus.config.plain_yaml import write_yaml
from ludus.experiments.comparison.charts import final_scores, improvement, learning_curves
from ludus.experiments.comparison.results import SHARES
from ludus.experiments.comparison.tables import memory
from ludus.reports.charts import color_of
from ludus.reports.page import draw, html_page, rows_to_table, section
from ludus.runs import atomic
from ludus.tracking.progress import duration, mean_and_spread, number


def write_page(path: Path, found: Mapping[str, Any], costs: Mapping[str, Any]) -> Path:
    """Write `index.html` into `path` from the return values of `write_results`; return its path."""
    target = path / "index.html"
    atomic.write_atomic(target, comparison_page(found, costs))
    return target


def comparison_page(found: Mapping[str, Any], costs: Mapping[str, Any]) -> str:
    """Return the whole page as text."""
    experiments = found["experiments"]
    colors = color_of([one["name"] for one in experiments])
    prices = list(zip(experiments, costs["experiments"], strict=True))
    parts = [_summary_sentence(found)]
    for env in dict.fromkeys(one["env"] for one in experiments):
        on_env = [pair for pair in prices if pair[0]["env"] == env]
        parts += _env_sections(env, on_env, found, colors, several=len(found["envs"]) > 1)
    if found["overall"]:
        parts.append(_overall(found["overall"], colors))
    if found["probability_of_improvement"]:
        figure = improvement(found["probability_of_improvement"], colors)
        note = (
            "How often a run of the first scores higher than a run of the second; ties count as half. "
            "Bars are 95 % bootstrap intervals over seeds. If a bar contains 0.5, the order is not certain."
        )
        parts.append(section("Probability of improvement", note, draw(figure)))
    parts += [_costs(prices, costs, colors), _failures(experiments), _settings(experiments)]
    return html_page(_title(found), _subtitle(found), parts)


def _env_sections(
    env: str,
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    found: Mapping[str, Any],
    colors: Mapping[str, str],
    *,
    several: bool,
) -> list[str]:
    experiments = [one for one, _ in pairs]
    suffix = f" on {env}" if several else ""
    if env not in found["envs"]:
        return []
    scale = found["envs"][env]
    levels = {f"{share}%": scale[f"{share}%"] for share in SHARES}
    curves = learning_curves(experiments, [cost["curve_seconds"] for _, cost in pairs], colors, levels=levels)
    parts = [
        section(
            f"Learning curves{suffix}",
            "Evaluations during training: interquartile mean over seeds, with 95 % bootstrap intervals. Dashed: "
            "shares of the range from the lowest to the highest point of any curve.",
            draw(curves),
        )
    ]
    if any(one["training_curve"] is not None and one["curve"] is not None for one in experiments):
        training = learning_curves(experiments, [None] * len(experiments), colors, key="training_curve")
        note = "Mean reward of the last training episodes, with exploration."
        parts.append(section(f"Reward while training{suffix}", note, draw(training)))
    ranked = sorted(experiments, key=lambda one: (one["iqm"] is None, -(one["iqm"] or {"value": 0})["value"]))
    parts.append(
        section(
            f"Final scores{suffix}",
            "Last evaluation. Stroke: interquartile mean; bar: 95 % stratified bootstrap interval; dots: seeds.",
            draw(final_scores(ranked, colors)) + _final_table(ranked, colors),
        )
    )
    parts.append(
        section(
            f"How soon{suffix}",
            f"When the curve first reaches a share of the range from {number(scale['low'])} to "
            f"{number(scale['high'])}. A dash: never.",
            _steps_to_table(pairs, scale, colors),
        )
    )
    return parts


def _final_table(experiments: Sequence[Mapping[str, Any]], colors: Mapping[str, str]) -> str:
    rows = []
    for index, one in enumerate(experiments):
        iqm, mean = one["iqm"], one["mean"]
        ended = f"{one['ended']}/{len(one['runs'])}"
        cells = [_name(one["name"], colors), ended if one["ended"] == len(one["runs"]) else _bad(ended)]
        if iqm is None:
            rows.append([*cells, *["–"] * 6])
            continue
        rows.append(
            [
                *cells,
                ("*" if index == 0 else "") + number(iqm["value"]),
                f"{number(iqm['low'])} to {number(iqm['high'])}",
                mean_and_spread(mean["value"], one["std"]),
                number(one["median"]),
                f"{number(one['min'])} to {number(one['max'])}",
                number(one["best"]),
            ]
        )
    head = ["experiment", "runs", "IQM", "95 % interval", "mean ± std", "median", "range", "best evaluation"]
    return rows_to_table(head, rows)


def _steps_to_table(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    scale: Mapping[str, float],
    colors: Mapping[str, str],
) -> str:
    keys = [f"{share}%" for share in SHARES]
    best = {
        key: min((one["steps_to"][key] for one, _ in pairs if one["steps_to"][key] is not None), default=None)
        for key in keys
    }
    rows = []
    for one, cost in pairs:
        steps = [one["steps_to"][key] for key in keys]
        cells = [
            "–" if value is None else ("*" if value == best[key] else "") + f"{value:,.0f}"
            for key, value in zip(keys, steps, strict=True)
        ]
        times = [_seconds(cost["seconds_to"][key]) for key in keys]
        rows.append([_name(one["name"], colors), *cells, *times])
    levels = [f"{share} %, {number(scale[f'{share}%'])}" for share in SHARES]
    head = ["experiment", *(f"steps to {one}" for one in levels), *(f"time to {s} %" for s in SHARES)]
    return rows_to_table(head, rows)


def _costs(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    costs: Mapping[str, Any],
    colors: Mapping[str, str],
) -> str:
    several = len({one["env"] for one, _ in pairs}) > 1
    rows = [
        [
            _name(one["name"], colors),
            *([escape(one["env"])] if several else []),
            f"{sum(run['steps'] for run in one['runs']):,}",
            _seconds(cost["seconds"]),
            f"{cost['fps']:,.0f}" if cost["seconds"] else "–",
            _seconds(cost["core_seconds"]),
            memory(cost["peak_memory"]) or "–",
        ]
        for one, cost in pairs
    ]
    head = ["experiment", *(["env"] if several else []), "steps", "training time", "steps/s"]
    head += ["core time", "peak memory"]
    machine = costs["machine"]
    versions = machine["versions"]
    note = (
        f"All seeds together, on {machine['cores']} cores; torch {versions.get('torch', '?')}, "
        f"Python {versions.get('python', '?')}, Ludus {versions.get('ludus', '?')}. Training time excludes start-up; "
        "core time includes it, and interrupted sessions; memory is that of the largest run."
    )
    return section("Costs", note, rows_to_table(head, rows))


def _overall(rows: Sequence[Mapping[str, Any]], colors: Mapping[str, str]) -> str:
    table = [
        [
            _name(row["name"], colors),
            f"{row['iqm']['value']:.3f}",
            f"{row['iqm']['low']:.3f} to {row['iqm']['high']:.3f}",
            str(len(row["envs"])),
        ]
        for row in sorted(rows, key=lambda row: -row["iqm"]["value"])
    ]
    note = "Interquartile mean over all envs and seeds; each env scaled from 0 (lowest curve point) to 1 (highest)."
    return section(
        "Over all envs", note, rows_to_table(["experiment", "IQM", "95 % interval", "envs"], table)
    )


def _failures(experiments: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [escape(f"{one['name']}, seed {run['seed']}"), _bad(run["status"]), escape(run["error"] or "")]
        for one in experiments
        for run in one["runs"]
        if run["status"] not in ("finished", "stopped")
    ]
    note = "They are not included in the figures above."
    return section("Unfinished runs", note, rows_to_table(["run", "", ""], rows)) if rows else ""


def _settings(experiments: Sequence[Mapping[str, Any]]) -> str:
    body = "".join(
        f"<details><summary>{escape(one['name'])} on {escape(one['env'])}, seeds "
        f"{', '.join(str(run['seed']) for run in one['runs'])}</summary>"
        f"<pre>{escape(write_yaml(one['config']))}</pre></details>"
        for one in experiments
    )
    return section("Settings", "As given; Ludus chose the values for null and auto.", body)


def _title(found: Mapping[str, Any]) -> str:
    names = list(dict.fromkeys(one["name"] for one in found["experiments"]))
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"{shown} on {', '.join(dict.fromkeys(one['env'] for one in found['experiments']))}"


def _subtitle(found: Mapping[str, Any]) -> str:
    runs = [run for one in found["experiments"] for run in one["runs"]]
    ended = sum(run["status"] in ("finished", "stopped") for run in runs)
    seeds = len({run["seed"] for run in runs})
    steps = sum(run["steps"] for run in runs)
    return f"{ended} of {len(runs)} runs, {seeds} seed{'s' * (seeds > 1)}, {steps:,} environment steps in all"


def _summary_sentence(found: Mapping[str, Any]) -> str:
    """Return one sentence on which is ahead and how certain that is; empty for several envs or without scores."""
    known = [one for one in found["experiments"] if one["iqm"] is not None]
    if len(known) < 2 or len(found["envs"]) > 1:
        return ""
    first, second = sorted(known, key=lambda one: -one["iqm"]["value"])[:2]
    chance = next(
        row
        for row in found["probability_of_improvement"]
        if row["better"] == first["name"] and row["than"] == second["name"]
    )
    sure = "" if chance["low"] > 0.5 else " With these seeds, the order of the two is not certain."
    text = (
        f"<b>{escape(first['name'])}</b> scores highest: {number(first['iqm']['value'])} "
        f"({number(first['iqm']['low'])} to {number(first['iqm']['high'])}), ahead of {escape(second['name'])} "
        f"with a probability of {chance['value']:.2f} ({chance['low']:.2f} to {chance['high']:.2f}).{sure}"
    )
    return f'<section><p class="verdict" style="color:inherit">{text}</p></section>'


def _name(name: str, colors: Mapping[str, str]) -> str:
    return f'<span class="dot" style="background:{colors[name]}"></span>{escape(name)}'


def _bad(text: str) -> str:
    return f'<span class="bad">{escape(text)}</span>'


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 60 else duration(value)
