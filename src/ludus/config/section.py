"""What every part of a config is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the config: strict about unknown keys, checked on assignment too."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, validate_default=True)
