"""Checks whose view scores and results have (the mover's or White's), by comparing their signs with material.

A side that is clearly ahead in material usually has good scores and wins. If the signs say the opposite for one side to
move, the labels are read in the wrong view.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loader._native import Census
from loader.chess.positions.entry import NO_SCORE, View
from loader.stream.data_facts import DataFact

ZERO = 32768  # index of score 0 among `Census.scores`
_FEWEST = 50  # positions of each side to move that are needed for a verdict
_CLEAR = 0.6  # share of agreeing signs that is needed to agree; below 1 - _CLEAR they disagree

NAMES = {"mover": "the mover's", "white": "White's", "black": "Black's", "opponent": "the opponent's of the mover"}
# The view that labels look like, by the view in which they are read, and by whether their signs agree with material
# where White is to move and where Black is.
_LOOKS = {
    "mover": {(True, True): "mover", (True, False): "white", (False, True): "black", (False, False): "opponent"},
    "white": {(True, True): "white", (True, False): "mover", (False, True): "opponent", (False, False): "black"},
}


@dataclass(frozen=True)
class Agreement:
    """Counts of positions with one side to move in which a label's sign agrees or disagrees with a clear advantage in
    material."""

    with_material: int = 0
    against: int = 0

    @property
    def positions(self) -> int:
        return self.with_material + self.against

    @property
    def share(self) -> float | None:
        """Returns the share of labels whose sign agrees with material, 0 to 1. None without positions."""
        return self.with_material / self.positions if self.positions else None

    @property
    def agrees(self) -> bool | None:
        """Tells whether labels agree with material. None if there are too few positions (under 50) or the share is
        between 40 % and 60 %."""
        if self.share is None or self.positions < _FEWEST or 1 - _CLEAR < self.share < _CLEAR:
            return None
        return self.share >= _CLEAR

    def to_dict(self) -> dict[str, float | int | None]:
        return {"positions": self.positions, "share": None if self.share is None else round(self.share, 4)}


@dataclass(frozen=True)
class ViewEvidence:
    """The agreement of a label (score or result) with material, counted separately for White and for Black to move.

    `view` is the view in which the labels are read. None: each label states its own view.
    """

    view: View | None
    white_to_move: Agreement
    black_to_move: Agreement
    comments_view: View | None = None  # the view that the settings give to comments of PGN

    @staticmethod
    def from_counts(
        view: View | None, signs: npt.NDArray[np.uint64], comments_view: View | None = None
    ) -> ViewEvidence:
        """Makes the evidence of counted signs, `signs`, an array as `_native.Census.score_signs` gives."""
        white, black = (Agreement(int(row[2]), int(row[0])) for row in signs)
        return ViewEvidence(view, white, black, comments_view)

    @property
    def _read_as(self) -> View:
        return self.view or self.comments_view or "mover"

    @property
    def looks_like(self) -> str | None:
        """Returns the view that the labels seem to have, a key of NAMES. None if material does not show it."""
        white, black = self.white_to_move.agrees, self.black_to_move.agrees
        if not self.black_to_move.positions:  # the format stores all positions with White to move
            black = white
        if white is None or black is None:
            return None
        return _LOOKS[self._read_as][white, black]

    @property
    def is_contradicted(self) -> bool:
        """Tells whether the labels look like another view than the one in which they are read."""
        return self.looks_like not in (None, self._read_as)

    def describe(self, label: str, files: str, *, others_agree: bool = False) -> str:
        """Describes in one line how a label is read, whether material agrees, and what to do if it does not.

        `label` is "score" or "result". `files` names the files that are read so, as "binpack: a.binpack".
        `others_agree` says that other files of the run are read correctly, so a setting for all files is no remedy.
        """
        read_as = f"{NAMES[self.view]} ({files})" if self.view else f"as each comment has it ({files})"
        shares = f"{_percent(self.white_to_move)} with White to move, {_percent(self.black_to_move)} with Black to move"
        looks_like = self.looks_like
        if looks_like is None:
            return f"{read_as}; material does not show whether that is so"
        if not self.is_contradicted:
            return f"{read_as}; material agrees: {shares}"
        return (
            f"warning: {read_as}, but looks like {NAMES[looks_like]}: {label}s have the sign of material in {shares}; "
            f"{_remedy(label, self.view, looks_like, others_agree=others_agree)}"
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "read_as": self.view,
            "looks_like": self.looks_like,
            "white_to_move": self.white_to_move.to_dict(),
            "black_to_move": self.black_to_move.to_dict(),
        }


def evidence_of(label: str, view: View | None, census: Census, comments_view: View | None = None) -> ViewEvidence:
    """Returns how well a label ("score" or "result") that is read in a view agrees with material, from the counts of a
    census."""
    signs = census.score_signs if label == "score" else census.result_signs
    return ViewEvidence.from_counts(view, signs, comments_view)


def describe_view(
    label: str,
    view: View | None,
    census: Census,
    origin: str,
    *,
    comments_view: View | None = None,
    others_agree: bool = False,
) -> DataFact | None:
    """Describes whose view a label is read in, and whether material agrees. Returns None if no position has a result,
    or if each comment states its own view and material shows nothing.

    `origin` names the files of the positions, for people. `comments_view` is the view that the settings give to
    comments of PGN. `others_agree` has the meaning that it has in `ViewEvidence.describe`.
    """
    if label == "result" and census.entries and not int(census.scores[:3].sum()):
        return None
    evidence = evidence_of(label, view, census, comments_view)
    if view is None and evidence.looks_like is None:
        return None
    return DataFact(f"{label} view", evidence.describe(label, origin, others_agree=others_agree))


def describe_comments_view(view: str | None) -> DataFact:
    """Describes whose scores the comments of PGN files contain. `view` is that of the settings, used for comments that
    do not state theirs."""
    return DataFact("score view", f"{NAMES[view or 'mover']} in comments of PGN; White's in [%eval] and wv=")


def count_missing_scores(census: Census) -> int:
    """Returns the number of positions in a census that have no score."""
    return int(census.scores[:, NO_SCORE + ZERO].sum())


def describe_missing_scores(census: Census, among: str) -> Iterator[DataFact]:
    """Yields a line with the share of positions that have no score, or nothing if all have one. `among` is a text for
    people, in which {positions} stands for the number of positions."""
    without = count_missing_scores(census)
    if without:
        share = f"{100 * without / census.entries:.3g} %"
        yield DataFact("scores", f"none in {share} of {among.format(positions=f'{census.entries:,} positions')}")


def _remedy(label: str, view: View | None, looks_like: str, *, others_agree: bool) -> str:
    """Returns advice for labels that look like another view than the one in which they are read."""
    if view is None:
        return "see data.chess.pgn.view (--pgn-view)"
    if looks_like in _LOOKS and others_agree:
        return f"data.chess.{label}_view is for all files of a run, and others are right: write these anew"
    if looks_like in _LOOKS:
        return f'data.chess.{label}_view = "{looks_like}" reads it so'
    return "no setting reads that: write the file with the mover's or White's"


def _percent(agreement: Agreement) -> str:
    return "no positions" if agreement.share is None else f"{100 * agreement.share:.0f} %"
