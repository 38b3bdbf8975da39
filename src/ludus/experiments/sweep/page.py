"""The page of a sweep: its settings, their results, and their importance."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from ludus.config.search_space import Choice, Range
from ludus.experiments.sweep.live import short
from ludus.experiments.sweep.study import Sweep
from ludus.reports.charts import COLORS, style
from ludus.reports.page import draw, html_page, rows_to_table, section
from ludus.runs import atomic
from ludus.tracking.progress import number

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_SHOWN = 20


def write_sweep_page(sweep: Sweep) -> Path:
    """Write `index.html` and `trials.csv` of the sweep so far; return the page."""
    trials = sweep.trials()
    atomic.write_atomic(sweep.path / "trials.csv", _table(sweep, trials))
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    parts = []
    if done:
        parts.append(
            section(
                "History",
                "Every trial's last evaluation; the line is the best so far.",
                draw(_history(trials)),
            )
        )
    weights = importances(sweep)
    if weights:
        note = (
            "The share of each setting in what separates the better trials from the rest (PED-ANOVA), over the trials "
            "that were trained to their end."
        )
        parts.append(section("Importance of settings", note, draw(_importance_chart(weights))))
    if len(done) > 1:
        keys = list(weights) or list(sweep.space)
        parts.append(
            section(
                "Settings of the trials",
                "One line per trial; drag along an axis to filter.",
                draw(_parallel(sweep, done, keys[:8])),
            )
        )
    parts.append(_best_table(sweep, done))
    target = sweep.path / "index.html"
    config = sweep.config
    env = config.env.id if config.env is not None else ""
    states = [
        f"{sum(t.state.name == s for t in trials)} {word}"
        for s, word in (("COMPLETE", "finished"), ("PRUNED", "pruned"), ("FAIL", "failed"))
    ]
    title = f"Sweep of {config.algorithm_entry().name} on {env}"
    atomic.write_atomic(target, html_page(title, f"{len(trials)} trials: {', '.join(states)}", parts))
    return target


def importances(sweep: Sweep) -> dict[str, float]:
    """Return the share of each config key in the importance, largest first; empty if there are too few trials."""
    import warnings

    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    if len(sweep.trials("COMPLETE")) < 4:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = get_param_importances(sweep.study, evaluator=PedAnovaImportanceEvaluator())
        except (ValueError, RuntimeError):  # raised by Optuna if all trials have the same result
            return {}
    return dict(found) if any(found.values()) else {}


def _history(trials: Sequence[FrozenTrial]) -> go.Figure:
    figure = go.Figure()
    looks = (
        ("COMPLETE", "finished", COLORS[0], "circle"),
        ("PRUNED", "pruned (its last evaluation)", "#9aa5b1", "x"),
    )
    for state, name, color, symbol in looks:
        points = [
            (t.number, value)
            for t in trials
            if t.state.name == state and (value := last_value(t)) is not None
        ]
        if points:
            figure.add_scatter(
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="markers",
                name=name,
                marker={"color": color, "size": 8, "symbol": symbol},
                hovertemplate="trial %{x}: %{y:.4g}<extra></extra>",
            )
    best, line = -float("inf"), []
    for trial in trials:
        if trial.state.name == "COMPLETE" and trial.value is not None:
            best = max(best, trial.value)
            line.append((trial.number, best))
    figure.add_scatter(
        x=[x for x, _ in line],
        y=[y for _, y in line],
        mode="lines",
        name="best so far",
        line={"color": COLORS[1], "width": 2, "shape": "hv"},
        hoverinfo="skip",
    )
    style(figure, 360)
    figure.update_layout(xaxis_title="trial", yaxis_title="reward")
    return figure


def _importance_chart(weights: dict[str, float]) -> go.Figure:
    names = list(reversed(weights))
    figure = go.Figure(
        go.Bar(
            x=[weights[name] for name in names],
            y=[short(name) for name in names],
            orientation="h",
            marker={"color": COLORS[0]},
            text=[f"{weights[name]:.0%}" for name in names],
            textposition="outside",
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    style(figure, 90 + 30 * len(names))
    figure.update_xaxes(tickformat=".0%", range=[0, max(weights.values()) * 1.12])
    figure.update_yaxes(showgrid=False)
    return figure


def _parallel(sweep: Sweep, done: Sequence[FrozenTrial], keys: Sequence[str]) -> go.Figure:
    """Draw one axis per key, with the reward last."""
    axes: list[dict[str, Any]] = []
    for key in keys:
        dimension = sweep.space[key]
        if isinstance(dimension, Choice):
            labels = dimension.labels
            values = [float(labels.index(trial.params[key])) for trial in done]
            ticks = {"tickvals": list(range(len(labels))), "ticktext": labels, "range": [0, len(labels) - 1]}
            axes.append({"label": short(key), "values": values, **ticks})
        else:
            axes.append(
                {"label": short(key), **_axis(dimension, [float(trial.params[key]) for trial in done])}
            )
    scores = [trial.value or 0.0 for trial in done]
    axes.append({"label": "reward", "values": scores})
    figure = go.Figure(
        go.Parcoords(
            dimensions=axes,
            line={"color": scores, "colorscale": [[0, "#cbd2d9"], [1, COLORS[0]]]},
            labelangle=-20,
        )
    )
    style(figure, 420)
    figure.update_layout(margin={"l": 70, "r": 70, "t": 90, "b": 30})
    return figure


def _axis(dimension: Range, values: Sequence[float]) -> dict[str, Any]:
    import math

    if not dimension.log:
        return {"values": list(values), "range": [dimension.low, dimension.high]}
    low, high = math.log10(dimension.low), math.log10(dimension.high)
    ticks = [low + (high - low) * part / 4 for part in range(5)]
    return {
        "values": [math.log10(value) for value in values],
        "range": [low, high],
        "tickvals": ticks,
        "ticktext": [f"{10**tick:.1e}" for tick in ticks],
    }


def _best_table(sweep: Sweep, done: Sequence[FrozenTrial]) -> str:
    ranked = sorted(done, key=lambda trial: -(trial.value or 0.0))[:_SHOWN]
    rows = [
        [
            str(trial.number),
            ("*" if trial is ranked[0] else "") + number(trial.value),
            *(escape(_cell(trial.params.get(key))) for key in sweep.space),
        ]
        for trial in ranked
    ]
    head = ["trial", "reward", *(escape(short(key)) for key in sweep.space)]
    note = "The best settings are in best.yaml: ludus train best.yaml"
    return section("The best trials", note, rows_to_table(head, rows)) if rows else ""


def last_value(trial: FrozenTrial) -> float | None:
    """Return the result of a trial, or its last evaluation if it was pruned."""
    if trial.value is not None and trial.state.name == "COMPLETE":
        return trial.value
    reported = trial.intermediate_values
    return reported[max(reported)] if reported else None


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _table(sweep: Sweep, trials: Sequence[FrozenTrial]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "reward", *sweep.space, "error"])
    for trial in trials:
        value = last_value(trial)
        params = [trial.params.get(key, "") for key in sweep.space]
        writer.writerow(
            [
                trial.number,
                trial.state.name.lower(),
                "" if value is None else value,
                *params,
                trial.user_attrs.get("error", ""),
            ]
        )
    return text.getvalue()
