"""What a source alone understands is a section of its own in [data]."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from loader.section import Effect, Section
from loader.stream.config import DataConfig
from loader.stream.data import Data
from loader.stream.schema import BatchSchema, DenseField
from loader.stream.sources import data_config, source_config_class
from loader.stream.synthetic import SyntheticSource


class Own(Section):
    width: Annotated[int, Field(ge=1, le=9, description="numbers of a row"), Effect.FIXED] = 2


class OwnSource(SyntheticSource):
    settings = Own  # type: ignore[assignment]

    def schema(self, config: DataConfig) -> BatchSchema:
        dense = tuple(DenseField(f"x{i}", "float32") for i in range(config.settings.width))
        return BatchSchema(config.batch_size, sparse=(), dense=dense)


class BareSource(SyntheticSource):
    settings = None  # type: ignore[assignment]


class NoDefault(Section):
    path: str


class NeedsAKey(SyntheticSource):
    settings = NoDefault  # type: ignore[assignment]


class NotASection(SyntheticSource):
    settings = dict  # type: ignore[assignment]


HERE = __name__


def test_a_source_reads_its_section_under_the_name_of_its_module() -> None:
    config = data_config(source=f"{HERE}:OwnSource", batch_size=8, test_source_settings={"width": 3})
    assert [field.name for field in Data(config).schema().dense] == ["x0", "x1", "x2"]
    assert config.model_dump()["test_source_settings"] == {"width": 3}


def test_a_source_without_settings_adds_nothing() -> None:
    assert source_config_class(f"{HERE}:BareSource", DataConfig) is DataConfig
    assert data_config(source=f"{HERE}:BareSource").settings is None


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("NeedsAKey", r"settings\.path: has no good default: Field required"),
        ("NotASection", r"settings must be a class made from loader\.Section, not <class 'dict'>"),
    ],
)
def test_settings_that_are_no_section_are_refused(source: str, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"data\.source: {HERE}:{source}: {problem}"):
        data_config(source=f"{HERE}:{source}")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("threads", "has the name of a key"),
        ("settings", "has the name of a key"),
        ("_own", "begins with an underscore"),
    ],
)
def test_a_module_whose_name_can_be_no_section_is_refused(
    module: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, module, sys.modules[HERE])
    with pytest.raises(ValueError, match=rf"the section data\.{module} of its settings {why}; rename the module"):
        data_config(source=f"{module}:OwnSource")


@pytest.mark.parametrize(("keys", "named"), [({"width": 10}, "width"), ({"height": 1}, "height")])
def test_limits_are_those_of_the_section(keys: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        data_config(source=f"{HERE}:OwnSource", test_source_settings=keys)
