from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.errors import UnknownName
from ludus.tracking.logs import attach_log_file, detach, setup_logging

log = logging.getLogger("ludus.somewhere")


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("ludus")
    level = logger.level
    yield
    setup_logging(console=False)
    logger.setLevel(level)
    assert not logger.handlers


def test_setting_up_twice_logs_each_message_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        setup_logging("INFO", tmp_path / "train.log")
    log.info("hello")
    log.warning("careful")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "hello\nwarning: careful\n"
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO    ludus\.somewhere: hello", lines[0])


def test_level_applies_to_the_console_and_the_file_gets_info(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup_logging("warning", tmp_path / "train.log")
    log.debug("detail")
    log.info("hello")
    assert capsys.readouterr().err == ""
    assert (tmp_path / "train.log").read_text().endswith("hello\n")
    setup_logging("DEBUG")
    log.debug("detail")
    assert capsys.readouterr().err == "debug: detail\n"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UnknownName, match="LOUD"):
        setup_logging("LOUD")


def test_an_attached_file_gets_messages_until_it_is_detached(tmp_path: Path) -> None:
    setup_logging(console=False)
    path = tmp_path / "logs" / "train.log"
    handler = attach_log_file(path)
    assert attach_log_file(path) is handler
    log.info("one")
    detach(handler)
    log.info("two")
    (line,) = path.read_text().splitlines()
    assert line.endswith("one")


def test_attaching_a_file_where_nothing_is_set_up_keeps_warnings_on_stderr(tmp_path: Path) -> None:
    code = (
        "import logging\n"
        "from ludus.tracking.logs import attach_log_file\n"
        f"attach_log_file({str(tmp_path / 'train.log')!r})\n"
        "logging.getLogger('ludus.x').info('hello')\n"
        "logging.getLogger('ludus.x').warning('careful')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == "warning: careful\n"
    assert len((tmp_path / "train.log").read_text().splitlines()) == 2
