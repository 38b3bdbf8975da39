"""`mirror:` is a URL or a section, holds no secret, and changes nothing of what a config asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config.loading import config_hash, dump_yaml, load_config
from ludus.config.schema import TrainerConfig
from ludus.config.sections import bytes_per_second, checked_url
from ludus.errors import ConfigError


@pytest.mark.parametrize(
    "url", ["s3://bucket", "s3://bucket/a b/c", "gs://bucket/p", "gdrive://My runs", "file:///backup/runs"]
)
def test_a_url_is_enough(url: str) -> None:
    config = TrainerConfig(env="CartPole-v1", mirror=url)
    assert config.mirror is not None and (config.mirror.url, config.mirror.bandwidth) == (url, None)
    assert checked_url(f"{url}/") == url


@pytest.mark.parametrize(
    "url",
    [
        "bucket/prefix",
        "ftp://host/x",
        "s3://",
        "file://relative",
        "file:///",
        "s3://bucket/../other",
        "s3://key:secret@bucket/prefix",
        "s3://bucket/prefix?token=secret",
        "gs://bucket//x",
        "file:///a::s3://b/c",
        "s3://bucket/\nx",
    ],
)
def test_other_texts_are_refused_and_not_repeated_where_they_hold_a_secret(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, [f'mirror="{url}"'.replace("\n", "\\n"), "env=CartPole-v1"])
    assert "secret" not in caught.value.what


def test_a_section_may_follow_a_url(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("env: CartPole-v1\nmirror: s3://bucket\n")
    config = load_config(path, ["mirror.bandwidth=5 MB/s"]).config
    assert config.mirror is not None
    assert (config.mirror.url, config.mirror.bandwidth) == ("s3://bucket", "5 MB/s")
    (tmp_path / "d.yaml").write_text(dump_yaml(config))
    assert load_config(tmp_path / "d.yaml").config == config


def test_where_a_run_is_copied_to_is_not_what_it_asks_for() -> None:
    plain = TrainerConfig(env="CartPole-v1")
    assert config_hash(plain) == config_hash(plain.model_copy(update={"mirror": None}))
    assert config_hash(plain) == config_hash(TrainerConfig(env="CartPole-v1", mirror="s3://bucket"))


@pytest.mark.parametrize(
    ("text", "rate"),
    [("500 kB/s", 5e5), ("5 MB/s", 5e6), ("5mb", 5e6), ("1.5 GiB/s", 1.5 * 2**30), ("100 B/s", 100.0)],
)
def test_valid_bandwidths_are_parsed(text: str, rate: float) -> None:
    assert bytes_per_second(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0 MB/s", "-1 MB/s", "5 Mbit/s", "5"])
def test_invalid_bandwidths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bandwidth"):
        bytes_per_second(text)
