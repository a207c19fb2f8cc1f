"""Converts the settings of filters to the form that native code takes."""

from __future__ import annotations

from loader import _native
from loader.chess.filters import FilterConfig
from loader.chess.filters.curves import chances_by_ply, shares_by_piece_count
from loader.chess.filters.viriformat import ViriformatRules
from loader.chess.filters.where import compile_condition

_SAME = (
    "skip_no_score",
    "skip_zero_placeholders",
    "skip_in_check",
    "skip_captures",
    "skip_promotions",
    "skip_ply_up_to",
    "random_skip",
    "win_draw_loss",
    "piece_count_least",
)


def filter_settings(filters: FilterConfig) -> _native.FilterSettings:
    """Converts the settings of [data.chess.filters] for native code: conditions are compiled, and curves become
    tables."""
    settings = _native.FilterSettings()
    for name in _SAME:
        setattr(settings, name, getattr(filters, name))
    settings.piece_count = filters.piece_count or bool(filters.piece_count_curve)
    if filters.piece_count_curve:
        settings.piece_count_wanted = shares_by_piece_count(filters.piece_count_curve)
    settings.where = [compile_condition(text) for _, text in filters.conditions()]
    settings.chance_by_ply = chances_by_ply(filters.keep_by_ply)
    _add_viriformat(settings, filters.viriformat)
    return settings


def _add_viriformat(settings: _native.FilterSettings, rules: ViriformatRules) -> None:
    """Adds the rules of viriformat that draw at random. The other rules of viriformat are conditions."""
    if rules.random_fen_skipping:
        settings.chance_of_all = 1.0 - rules.random_fen_skip_probability
    if rules.material_count_filtered:
        settings.chance_by_piece_count = [1.0 - skipped for skipped in rules.material_count_probabilities]
    if rules.wdl_filtered:
        model = _native.MaterialModel()
        model.centre, model.width = list(rules.wdl_model_params_a), list(rules.wdl_model_params_b)
        model.least_material, model.most_material = rules.material_min, rules.material_max
        model.unit, model.scale = rules.mom_target, rules.wdl_heuristic_scale
        settings.chance_by_result = model
