"""Envelopes as values: each has a decoder, and what they say of themselves fits together."""

from __future__ import annotations

import dataclasses

import pytest

from compactor.config.keys import Table
from compactor.core.model.envelopes import ENVELOPES, SPECIAL_SETTINGS, Envelope, accepting
from compactor.core.model.spec import TableSpec
from compactor.core.settings.job_config import JobConfig
from compactor.spark.decode.decoder import DECODERS

ALL = list(ENVELOPES.values())


def test_every_envelope_has_a_decoder() -> None:
    """And every decoder an envelope."""
    assert sorted(DECODERS) == sorted(ENVELOPES)


@pytest.mark.parametrize("envelope", ALL, ids=lambda envelope: envelope.name)
def test_its_settings_are_settings_of_a_table(envelope: Envelope) -> None:
    """Own ones are special, refused ones are not; each is a field of the configuration."""
    assert envelope.own_settings <= set(SPECIAL_SETTINGS) <= set(Table.__dataclass_fields__)
    refused = {name for name, _ in envelope.refused_settings}
    assert refused <= set(Table.__dataclass_fields__) - set(SPECIAL_SETTINGS)
    assert "csv" not in envelope.formats or envelope.plain_rows


def test_every_special_setting_is_accepted_somewhere() -> None:
    """Else nobody could use it."""
    assert all(accepting(setting) for setting in SPECIAL_SETTINGS)


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_table_knows_its_source(name: str) -> None:
    """Also after it went to a cluster as JSON."""
    spec = TableSpec("t", "/lake/t", "/lake/t/in", "%Y", "d", "t", "d", ("id",), envelope=name)
    assert spec.source is ENVELOPES[name]
    assert JobConfig.read(JobConfig((spec,), "/lake").written()).specs[0].source is spec.source


def test_every_capability_differs_somewhere() -> None:
    """A field that is the same for all envelopes is none."""
    assert [field.name for field in dataclasses.fields(Envelope) if len({getattr(envelope, field.name) for envelope in ALL}) == 1] == []
