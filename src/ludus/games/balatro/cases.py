"""Files of hands with their expected scores, in the format of `scoring_cases.jsonl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ludus.errors import UserError
from ludus.games.balatro.replay import ReplayAgreement, read_rows
from ludus.games.balatro.score import HandScore, score


def score_file(path: str | Path) -> ReplayAgreement:
    """Score every hand of a file. UserError for a line that is not such a case."""
    agreement = ReplayAgreement()
    for line, row in read_rows(Path(path)):
        answer = _score(path, line, row)
        agreement.cases += 1
        for field, own in (("hand", answer.hand), ("score", answer.score)):
            if row.get(field) != own:
                agreement.disagree.append(
                    {"file": str(path), "line": line, "field": field, "recorded": row.get(field), "own": own}
                )
                break
    return agreement


def explain_case(path: str | Path, line: int) -> HandScore:
    """Return how the hand of one line is scored. UserError if the line does not exist or is invalid."""
    for number, row in read_rows(Path(path)):
        if number == line:
            return _score(path, line, row)
    raise UserError(f"line {line} not found", where=str(path))


def _score(path: str | Path, line: int, row: dict[str, Any]) -> HandScore:
    where = f"{path}, line {line}"
    try:
        return score(row["state"])
    except UserError as error:
        raise UserError(error.what, where=where, fix=error.fix) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"invalid hand to score: {error!r}", where=where) from error
