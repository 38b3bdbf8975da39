"""Plotly figures of a comparison, from the plain data of results.json and costs.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ludus.reports.charts import GRID, PALE, pale, style


def learning_curves(
    experiments: Sequence[Mapping[str, Any]],
    seconds: Sequence[Sequence[float] | None],
    colors: Mapping[str, str],
    key: str = "curve",
    levels: Mapping[str, float] | None = None,
) -> go.Figure:
    """Draw interquartile means over seeds with their intervals, over env steps; buttons switch to seconds.

    `seconds` belong to the points of each experiment's curve; `levels` are drawn as named dashed lines.
    """
    figure = go.Figure()
    by_steps: list[Any] = []
    by_time: list[Any] = []
    for one, clock in zip(experiments, seconds, strict=True):
        curve = one[key]
        if curve is None:
            continue
        steps, color = curve["steps"], colors[one["name"]]
        times = list(clock or [])
        alone = len(steps) == 1
        figure.add_scatter(
            x=[*steps, *reversed(steps)],
            y=[*curve["high"], *reversed(curve["low"])],
            mode="lines",
            fill="toself",
            fillcolor=pale(color),
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
            legendgroup=one["name"],
        )
        figure.add_scatter(
            x=steps,
            y=curve["iqm"],
            name=one["name"],
            mode="markers" if alone else "lines",
            line={"color": color, "width": 2.5},
            marker={"color": color, "size": 9},
            legendgroup=one["name"],
            customdata=list(zip(curve["low"], curve["high"], strict=True)),
            hovertemplate="%{y:.4g}  (%{customdata[0]:.4g} to %{customdata[1]:.4g})",
        )
        by_steps += [[*steps, *reversed(steps)], steps]
        by_time += [[*times, *reversed(times)], times]
    for name, level in (levels or {}).items():
        figure.add_hline(
            y=level,
            line={"color": "#9aa5b1", "width": 1, "dash": "dot"},
            annotation={"text": name, "font": {"size": 11, "color": PALE}},
            annotation_position="right",
        )
    style(figure, 430)
    figure.update_layout(hovermode="x unified", xaxis_title="environment steps", yaxis_title="reward")
    if key == "curve" and any(clock for clock in seconds):
        _add_switch(figure, by_steps, by_time)
    return figure


def final_scores(experiments: Sequence[Mapping[str, Any]], colors: Mapping[str, str]) -> go.Figure:
    """Draw for each experiment the interquartile mean with its interval, and the score of every seed as a dot."""
    figure = go.Figure()
    for one in reversed(experiments):
        if one["iqm"] is None:
            continue
        color, iqm = colors[one["name"]], one["iqm"]
        scores = [run for run in one["runs"] if run["score"] is not None]
        figure.add_scatter(
            x=[run["score"] for run in scores],
            y=[one["name"]] * len(scores),
            mode="markers",
            marker={"color": color, "size": 8, "opacity": 0.35},
            text=[f"seed {run['seed']}" for run in scores],
            hovertemplate="%{text}: %{x:.4g}<extra></extra>",
            showlegend=False,
        )
        figure.add_scatter(
            x=[iqm["value"]],
            y=[one["name"]],
            mode="markers",
            marker={"color": color, "size": 15, "symbol": "line-ns", "line": {"color": color, "width": 4}},
            error_x=_whiskers(iqm, color),
            hovertemplate=f"IQM %{{x:.4g}} ({iqm['low']:.4g} to {iqm['high']:.4g})<extra></extra>",
            showlegend=False,
        )
    style(figure, 110 + 44 * len(experiments))
    figure.update_layout(xaxis_title="reward in the last evaluation")
    figure.update_yaxes(showgrid=False, type="category")
    return figure


def improvement(rows: Sequence[Mapping[str, Any]], colors: Mapping[str, str]) -> go.Figure:
    """Draw the probability that one beats another, with intervals; of every pair, only the likelier direction."""
    shown = _likelier_of_each_pair(rows)
    figure = go.Figure()
    for row in reversed(shown):
        label = f"{row['better']} &gt; {row['than']}"
        figure.add_scatter(
            x=[row["value"]],
            y=[label],
            mode="markers",
            marker={"color": colors[row["better"]], "size": 11},
            error_x=_whiskers(row, colors[row["better"]]),
            hovertemplate=f"%{{x:.2f}} ({row['low']:.2f} to {row['high']:.2f})<extra></extra>",
            showlegend=False,
        )
    figure.add_vline(x=0.5, line={"color": "#9aa5b1", "width": 1, "dash": "dot"})
    style(figure, 110 + 40 * len(shown))
    figure.update_layout(xaxis_title="probability that a run of the first scores higher")
    figure.update_xaxes(range=[-0.02, 1.02])
    figure.update_yaxes(showgrid=False)
    return figure


def _likelier_of_each_pair(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    shown: dict[frozenset[str], Mapping[str, Any]] = {}
    for row in rows:
        pair = frozenset((row["better"], row["than"]))
        if pair not in shown or row["value"] > shown[pair]["value"]:
            shown[pair] = row
    return list(shown.values())


def _whiskers(found: Mapping[str, float], color: str) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [found["high"] - found["value"]],
        "arrayminus": [found["value"] - found["low"]],
        "color": color,
        "thickness": 2.5,
        "width": 6,
    }


def _add_switch(figure: go.Figure, by_steps: list[Any], by_time: list[Any]) -> None:
    traces = list(range(len(by_steps)))
    buttons = [
        {"label": label, "method": "update", "args": [{"x": xs}, {"xaxis.title.text": title}, traces]}
        for label, xs, title in (
            ("by steps", by_steps, "environment steps"),
            ("by time", by_time, "seconds of training"),
        )
    ]
    figure.update_layout(
        updatemenus=[
            {
                "type": "buttons",
                "direction": "right",
                "buttons": buttons,
                "x": 1,
                "xanchor": "right",
                "y": 1.02,
                "yanchor": "bottom",
                "pad": {"b": 4},
                "bgcolor": "white",
                "bordercolor": GRID,
                "font": {"size": 12},
            }
        ]
    )
