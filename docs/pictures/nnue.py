"""Draws the pictures of docs/explanation/nnue.md: `python docs/pictures/nnue.py [FOLDER]`.

Plain SVG with a background of its own, so that it can be read on light and dark pages, and without fonts of its own.
`DRAWINGS` has each by its file's name; the numbers in them are computed here from the position that is drawn.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

PAPER, EDGE, INK, MUTED = "#ffffff", "#d0d6dd", "#1f2a36", "#5b6775"
OWN, ENEMY, GOOD, PALE = "#2f6db5", "#bf5a22", "#2f8557", "#eef1f5"
LIGHT, DARK = "#f1ebdf", "#cdbfa6"
KINDS = "PNBRQK"
WIDTH = 900

# White to move: King g1, Rook d1, pawns f2, g2 against King g8, Queen d5, pawns g7, h7.
POSITION = {"g1": "K", "d1": "R", "f2": "P", "g2": "P", "g8": "k", "d5": "q", "g7": "p", "h7": "p"}
# The same with a knight. The inputs of SFNNv16 know these of its attacks and pairs of pawns; a rook on the line of a
# queen that it attacks has none, as the queen attacks the rook.
WITH_KNIGHT = {**POSITION, "c3": "N"}
ATTACKS = (("c3", "d5"), ("c3", "d1"), ("d5", "d1"), ("d5", "g2"))
PAWN_PAIRS = (("f2", "g2"), ("g7", "h7"), ("f2", "g7"), ("g2", "g7"), ("g2", "h7"))
KING_BUCKETS = (0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9)
SHADES = ("#d7e6f5", "#c5daf0", "#b3ceea", "#a1c2e5", "#f3dfce", "#ecccb2", "#d9ecdd", "#c3e0ca", "#e9e2f2", "#f2ecd2")


class Drawing:
    """Elements of an SVG, from the back to the front."""

    def __init__(self, height: float, said: str) -> None:
        self._height, self._said = height, said
        self._parts: list[str] = []

    def svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height:g}" role="img">'
        size = 'refX="9" refY="5" markerWidth="11" markerHeight="11" markerUnits="userSpaceOnUse" orient="auto"'
        tip = f'<marker id="tip" viewBox="0 0 10 10" {size}>'
        card = f'width="{WIDTH - 2}" height="{self._height - 2:g}" rx="10" fill="{PAPER}" stroke="{EDGE}"'
        return "\n".join(
            [
                head,
                f"<title>{escape(self._said)}</title>",
                f'<defs>{tip}<path d="M0,0 L10,5 L0,10 z" fill="{MUTED}"/></marker></defs>',
                f'<rect x="1" y="1" {card}/>',
                '<g font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
                *self._parts,
                "</g>",
                "</svg>\n",
            ]
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 15,
        fill: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"{weight}'
        self._parts.append(f"<text {place}>{escape(words)}</text>")

    def lines(self, x: float, y: float, lines: Sequence[str], *, size: float = 14, fill: str = MUTED) -> None:
        for number, words in enumerate(lines):
            self.text(x, y + 1.45 * size * number, words, size=size, fill=fill)

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, stroke: str = "none", rx: float = 0
    ) -> None:
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{rx:g}"'
        self._parts.append(f'<rect {size} fill="{fill}" stroke="{stroke}"/>')

    def circle(self, x: float, y: float, radius: float, fill: str, stroke: str = "none") -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{stroke}"/>')

    def path(
        self, points: Sequence[tuple[float, float]], stroke: str = MUTED, width: float = 1.5, *, tip: bool = False
    ) -> None:
        """A line through the points; with a tip, an arrow."""
        way = " L".join(f"{x:.5g},{y:.5g}" for x, y in points)
        end = ' marker-end="url(#tip)"' if tip else ""
        self._parts.append(f'<path d="M{way}" fill="none" stroke="{stroke}" stroke-width="{width:g}"{end}/>')

    def board(self, x: float, y: float, square: float, names: bool = True) -> None:
        for rank in range(8):
            for file in range(8):
                shade = DARK if (rank + file) % 2 == 0 else LIGHT
                self.box(x + file * square, y + (7 - rank) * square, square, square, shade)
        for number in range(8) if names else ():
            self.text(
                x + (number + 0.5) * square,
                y + 8 * square + 14,
                "abcdefgh"[number],
                size=11,
                fill=MUTED,
                anchor="middle",
            )
            self.text(x - 9, y + (7.5 - number) * square + 4, str(number + 1), size=11, fill=MUTED, anchor="middle")

    def piece(self, x: float, y: float, square: float, place: int, letter: str, fill: str) -> None:
        """On square `place` (a1 0, h8 63) of a board."""
        column, row = centre(x, y, square, place)
        self.circle(column, row, 0.4 * square, fill, PAPER)
        size = 0.5 * square
        self.text(column, row + 0.36 * size, letter.upper(), size=size, fill=PAPER, anchor="middle", bold=True)


def centre(x: float, y: float, square: float, place: int) -> tuple[float, float]:
    return x + (place % 8 + 0.5) * square, y + (7.5 - place // 8) * square


def number_of(square: str) -> int:
    return 8 * (int(square[1]) - 1) + "abcdefgh".index(square[0])


def features(position: Mapping[str, str], black: bool) -> list[tuple[int, str, bool, int]]:
    """Returns of each piece as that side sees it: square, letter, whether it is the enemy's, number of the input."""
    found = []
    for square, letter in position.items():
        place = number_of(square) ^ (56 if black else 0)
        enemy = letter.islower() != black
        found.append((place, letter.upper(), enemy, 384 * enemy + 64 * KINDS.index(letter.upper()) + place))
    return sorted(found, key=lambda each: each[3])


def side_colour(letter: str) -> str:
    return OWN if letter.isupper() else ENEMY


def overview() -> Drawing:
    drawing = Drawing(310, "From the board to a score: features, accumulators, small layers")
    drawing.board(34, 60, 21, names=False)
    for square, letter in POSITION.items():
        drawing.piece(34, 60, 21, number_of(square), letter, side_colour(letter))
    drawing.box(249, 60, 96, 168, PALE)  # 24 columns of 32 inputs
    for *_, number in features(POSITION, black=False):
        drawing.box(249 + 4 * (number // 32), 60 + 5.25 * (number % 32), 4, 5.25, OWN)
    for side, colour in enumerate((OWN, ENEMY)):
        for cell in range(12):
            shade = (0.25, 0.9, 0.5, 0.1, 0.7, 0.35)[(cell * 5 + side * 2 + cell // 5) % 6]
            drawing.box(420 + 40 * side, 60 + 14 * cell, 30, 13, mixed(colour, shade))
    for count, x in ((8, 585), (5, 650), (1, 715)):
        for unit in range(count):
            drawing.circle(x, 144 + 20 * (unit - (count - 1) / 2), 7, GOOD)
    drawing.text(770, 152, "+4.20", size=26, bold=True)
    for begin, end in ((209, 243), (351, 412), (497, 568), (602, 635), (667, 700), (730, 763)):
        drawing.path([(begin, 144), (end, 144)], tip=True)
    headings = ((118, "board"), (297, "features"), (455, "accumulators"), (650, "small layers"), (808, "score"))
    for x, words in headings:
        drawing.text(x, 40, words, size=16, anchor="middle", bold=True)
    notes = (
        (34, ["who stands where"]),
        (230, ["768 inputs, 0 or 1:", "8 of them are 1"]),
        (398, ["one for each side;", "sums of rows: few", "change with a move"]),
        (570, ["dense, but small:", "computed anew", "for each position"]),
        (765, ["for the side", "to move"]),
    )
    for x, lines in notes:
        drawing.lines(x, 256, lines)
    return drawing


def mixed(colour: str, share: float) -> str:
    """A colour with white; a share of 1 is the colour."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def two_views() -> Drawing:
    drawing = Drawing(370, "One position as White and as Black see it, with the numbers of the inputs")
    for side, (x, words) in enumerate(((36, "as White sees it"), (474, "as Black sees it, upside down"))):
        drawing.text(x, 36, words, size=16, bold=True)
        drawing.board(x, 52, 28)
        for row, (place, letter, enemy, number) in enumerate(features(POSITION, black=side == 1)):
            colour = ENEMY if enemy else OWN
            drawing.piece(x, 52, 28, place, letter, colour)
            name = f"{letter} {'abcdefgh'[place % 8]}{place // 8 + 1}"
            drawing.circle(x + 256, 62 + 27 * row, 6, colour)
            drawing.text(x + 270, 67 + 27 * row, name, size=14)
            drawing.text(x + 366, 67 + 27 * row, str(number), size=14, fill=colour, anchor="end", bold=True)
    drawing.circle(44, 322, 7, OWN)
    drawing.text(58, 327, "own piece", size=14)
    drawing.circle(164, 322, 7, ENEMY)
    drawing.text(178, 327, "the other side's", size=14)
    drawing.text(
        36,
        354,
        "number = 384 if the other side's + 64 x kind (P 0, N 1, B 2, R 3, Q 4, K 5) + square (a1 0, h8 63)",
        size=14,
        fill=MUTED,
    )
    return drawing


def update() -> Drawing:
    drawing = Drawing(330, "A move takes one row of the table out of the accumulator and puts another one in")
    before = [12, -3, 40, 7, -18, 25, 0, 31, -9, 14]
    gone = [4, -6, 11, 2, 0, 9, -5, 13, -1, 3]
    new = [-2, 5, 17, -4, 6, 1, 8, -7, 2, 10]
    after = [b - g + n for b, g, n in zip(before, gone, new, strict=True)]
    rows = (
        ("accumulator before the move", before, mixed(OWN, 0.3), ""),
        (f"row {input_of('R', 'd1')}: own rook on d1", gone, mixed(ENEMY, 0.3), "-"),
        (f"row {input_of('R', 'd4')}: own rook on d4", new, mixed(GOOD, 0.3), "+"),
        ("accumulator after Rd1-d4", after, mixed(OWN, 0.3), "="),
    )
    drawing.text(30, 36, "White's accumulator, 10 of its numbers", size=16, bold=True)
    for row, (words, values, colour, sign) in enumerate(rows):
        y = 58 + 52 * row
        drawing.text(30, y + 24, words, size=15)
        if sign:
            drawing.text(286, y + 26, sign, size=22, anchor="middle", bold=True)
        for column, value in enumerate(values):
            drawing.box(310 + 56 * column, y, 50, 36, colour, rx=4)
            drawing.text(335 + 56 * column, y + 24, str(value).replace("-", "\u2212"), size=16, anchor="middle")
    drawing.lines(
        30,
        284,
        [
            "A capture takes a second row out. Black's accumulator is updated too, by the rows that Black sees.",
            "With 1,024 numbers a move costs 2,048 additions for a side. Adding up 32 pieces anew costs 32,768.",
        ],
    )
    return drawing


def input_of(letter: str, square: str) -> int:
    return 64 * KINDS.index(letter) + number_of(square)


def king_buckets() -> Drawing:
    drawing = Drawing(368, "The own king's square chooses one of ten tables of 768 rows")
    x, y, square = 46, 54, 32
    drawing.text(x, 36, "bucket of the own king", size=16, bold=True)
    drawing.board(x, y, square)
    for place in range(64):
        file = min(place % 8, 7 - place % 8)
        bucket = KING_BUCKETS[4 * (place // 8) + file]
        column, row = centre(x, y, square, place)
        drawing.box(column - square / 2, row - square / 2, square, square, SHADES[bucket], PAPER)
        if place != number_of("g1"):
            drawing.text(column, row + 5, str(bucket), size=14, anchor="middle", fill=INK if place % 8 < 4 else MUTED)
    drawing.piece(x, y, square, number_of("g1"), "K", OWN)
    chosen = KING_BUCKETS[number_of("b1")]
    for bucket in range(10):
        column, row = 420 + 90 * (bucket % 5), 70 + 108 * (bucket // 5)
        drawing.box(column, row, 74, 84, SHADES[bucket], OWN if bucket == chosen else EDGE, rx=4)
        drawing.text(column + 37, row + 40, str(bucket), size=22, anchor="middle", bold=bucket == chosen)
        drawing.text(column + 37, row + 64, "768 rows", size=12, anchor="middle", fill=MUTED)
    drawing.text(420, 36, "ten tables", size=16, bold=True)
    drawing.lines(
        420,
        290,
        [
            "The king on g1 is mirrored to b1, and the board with it:",
            f"bucket {chosen}. Row = 768 x {chosen} + the piece's number.",
            "A king that changes its bucket changes every row:",
        ],
    )
    drawing.text(420, 290 + 3 * 1.45 * 14, "the accumulator is then added up anew.", size=14, fill=MUTED)
    return drawing


def threats() -> Drawing:
    drawing = Drawing(340, "Inputs of two pieces: what attacks what, and pairs of pawns")
    x, y, square = 46, 54, 30

    def place(name: str) -> tuple[float, float]:
        return centre(x, y, square, number_of(name))

    drawing.text(x, 36, "attacks, and pairs of pawns", size=16, bold=True)
    drawing.board(x, y, square)
    for first, second in PAWN_PAIRS:
        drawing.path([place(first), place(second)], GOOD, 3)
    for begin, end in ATTACKS:
        (from_x, from_y), (to_x, to_y) = place(begin), place(end)
        length = math.hypot(to_x - from_x, to_y - from_y)
        along_x, along_y = (to_x - from_x) / length, (to_y - from_y) / length
        ends = [(from_x + 13 * along_x, from_y + 13 * along_y), (to_x - 14 * along_x, to_y - 14 * along_y)]
        drawing.path(ends, side_colour(POSITION.get(begin, "N")), 2.5, tip=True)
    for name, letter in WITH_KNIGHT.items():
        drawing.piece(x, y, square, number_of(name), letter, side_colour(letter))
    drawing.text(350, 36, "as inputs", size=16, bold=True)
    lines = (
        (OWN, "N c3 attacks q d5"),
        (OWN, "N c3 protects R d1"),
        (ENEMY, "q d5 attacks R d1"),
        (ENEMY, "q d5 attacks P g2"),
        (GOOD, "five pairs of pawns"),
    )
    for row, (colour, words) in enumerate(lines):
        drawing.circle(358, 68 + 30 * row, 7, colour)
        drawing.text(374, 73 + 30 * row, words)
    drawing.lines(
        550,
        73,
        [
            "A threat is an input for each combination",
            "of attacker, its square, target, its square:",
            "59,808, of which up to 128 are 1.",
            "The rook needs none for the queen,",
            "since the queen attacks the rook.",
        ],
    )
    drawing.lines(
        350,
        242,
        [
            "Pawns on the same or neighbouring files: 4,560 pairs, up to 96 are 1.",
            "A move changes more of these than of the pieces, so it costs more;",
            "but the small layers are told what they would have to find out.",
        ],
    )
    return drawing


def activations() -> Drawing:
    drawing = Drawing(330, "Clipped, squared and pairwise activation")
    left, bottom, unit = 60, 240, 150
    drawing.text(36, 36, "clipped and squared", size=16, bold=True)
    drawing.path([(left - 30, bottom), (left + 270, bottom)], tip=True)
    drawing.path([(left + 60, bottom + 14), (left + 60, 60)], tip=True)
    zero = left + 60
    drawing.path(
        [(left - 25, bottom - 1), (zero, bottom - 1), (zero + unit, bottom - unit), (left + 265, bottom - unit)], OWN, 3
    )
    square = [(zero + unit * t / 20, bottom - 1 - (unit - 1) * (t / 20) ** 2) for t in range(21)]
    drawing.path([(zero, bottom - 1), *square], ENEMY, 3)
    drawing.text(zero - 6, bottom + 20, "0", size=13, fill=MUTED, anchor="end")
    drawing.text(zero + unit, bottom + 20, "1", size=13, fill=MUTED, anchor="middle")
    drawing.text(zero - 10, bottom - unit + 5, "1", size=13, fill=MUTED, anchor="end")
    drawing.text(zero + 20, bottom - 110, "x", size=16, fill=OWN, anchor="middle", bold=True)
    drawing.text(zero + 124, bottom - 50, "x\u00b2", size=16, fill=ENEMY, anchor="middle", bold=True)
    drawing.lines(36, 284, ["Below 0 nothing, above 1 no more:", "so 8 bits are enough behind it."])
    drawing.text(400, 36, "pairwise: the first half times the second", size=16, bold=True)
    first, second = [0.0, 0.8, 0.3, 1.0, 0.5, 0.0], [0.7, 0.5, 0.0, 0.6, 0.4, 0.2]
    rows = (
        ("first half", first, OWN),
        ("second half", second, OWN),
        ("product", [a * b for a, b in zip(first, second, strict=True)], GOOD),
    )
    for row, (words, values, colour) in enumerate(rows):
        y = 62 + 62 * row
        drawing.text(400, y + 26, words, size=14)
        for column, value in enumerate(values):
            drawing.box(500 + 62 * column, y, 54, 40, mixed(colour, 0.12 + 0.6 * value), rx=4)
            drawing.text(527 + 62 * column, y + 26, f"{value:.2f}".rstrip("0").rstrip("."), anchor="middle")
        if row < 2:
            drawing.text(480, y + 56, "x" if row == 0 else "=", size=18, anchor="middle", bold=True)
    drawing.lines(
        400,
        270,
        [
            "Half as many numbers go on, and each says 'both of these'.",
            "Many are 0, and an engine skips what is multiplied by them.",
        ],
    )
    return drawing


def layers() -> Drawing:
    drawing = Drawing(390, "The layers of Stockfish 15.1's network, with eight stacks by number of pieces")
    for row, (words, colour) in enumerate((("side to move", OWN), ("other side", ENEMY))):
        y = 70 + 100 * row
        drawing.box(36, y, 130, 64, mixed(colour, 0.35), rx=5)
        drawing.text(101, y + 28, words, size=14, anchor="middle")
        drawing.text(101, y + 50, "1,024", size=16, anchor="middle", bold=True)
        drawing.path([(170, y + 32), (228, y + 32)], tip=True)
        drawing.box(232, y + 8, 96, 48, mixed(colour, 0.2), rx=5)
        drawing.text(280, y + 38, "512", size=16, anchor="middle", bold=True)
        drawing.path([(332, y + 32), (352, y + 32), (352, 152), (388, 152)], tip=row == 0)
    drawing.text(101, 44, "accumulators", size=16, anchor="middle", bold=True)
    drawing.text(280, 44, "pairs", size=16, anchor="middle", bold=True)
    for stack in range(7, -1, -1):
        chosen = stack == 0
        drawing.box(
            392 + 7 * stack,
            100 - 7 * stack,
            330,
            110,
            mixed(GOOD, 0.3) if chosen else PALE,
            GOOD if chosen else EDGE,
            rx=6,
        )
    for x, words in ((432, "1,024"), (516, "16"), (600, "32"), (684, "1")):
        drawing.text(x, 160, words, size=18, anchor="middle", bold=True)
    for begin, end in ((464, 496), (538, 578), (622, 664)):
        drawing.path([(begin, 154), (end, 154)], tip=True)
    drawing.path([(516, 172), (516, 194), (684, 194), (684, 172)], tip=True)
    drawing.text(600, 189, "one skips", size=12, fill=MUTED, anchor="middle")
    drawing.text(590, 34, "eight stacks of small layers", size=16, anchor="middle", bold=True)
    drawing.path([(726, 154), (796, 154)], tip=True)
    drawing.circle(812, 154, 13, PAPER, MUTED)
    drawing.text(812, 161, "+", size=20, anchor="middle", bold=True)
    drawing.path([(828, 154), (858, 154)], tip=True)
    drawing.box(392, 262, 330, 40, mixed(ENEMY, 0.2), rx=5)
    drawing.text(557, 287, "PSQT: 8 columns of the table, one is taken", size=14, anchor="middle")
    drawing.path([(726, 282), (812, 282), (812, 171)], tip=True)
    drawing.path([(101, 238), (101, 282), (388, 282)], tip=True)
    drawing.text(120, 274, "the same features", size=13, fill=MUTED)
    drawing.lines(
        36,
        336,
        [
            "The number of pieces chooses the stack and the column: (pieces - 1) / 4, so 8 pieces take stack 1.",
            "Behind 16 and 32 the numbers are clipped; of the 16, fifteen count twice, as they are and squared.",
        ],
    )
    return drawing


def quantization() -> Drawing:
    drawing = Drawing(350, "Floats become integers: the grid of a weight, and the types along the way")
    drawing.text(36, 36, "a weight, times 64, is rounded to int8", size=16, bold=True)
    left, right, y = 60, 840, 92
    drawing.path([(left, y), (right, y)], INK, 2)
    weight, scale, low = 0.3712, 64, 21
    step = (right - left) / 6

    def place(value: float) -> float:
        return left + (value * scale - low) * step

    for number in range(low, low + 7):
        x = left + (number - low) * step
        drawing.path([(x, y - 8), (x, y + 8)], INK, 2)
        drawing.text(x, y + 28, str(number), size=15, anchor="middle", bold=number == round(weight * scale))
        drawing.text(x, y + 46, f"{number / scale:.4f}", size=12, fill=MUTED, anchor="middle")
    drawing.circle(place(weight), y, 7, ENEMY)
    drawing.text(place(weight) - 12, y - 16, f"{weight} x 64 = {weight * scale:.2f}", size=14, fill=ENEMY, anchor="end")
    drawing.circle(left + (round(weight * scale) - low) * step, y, 5, OWN)
    drawing.text(
        left + (round(weight * scale) - low) * step + 12,
        y - 16,
        f"in the file: {round(weight * scale)}",
        size=14,
        fill=OWN,
    )
    boxes = (
        (36, "rows", "int16 or int8"),
        (214, "accumulators", "int16"),
        (392, "activations", "0 to 127: uint8"),
        (570, "weights behind", "int8"),
        (748, "sums", "int32"),
    )
    for x, words, kind in boxes:
        drawing.box(x, 176, 126, 64, mixed(OWN, 0.15), rx=5)
        drawing.text(x + 63, 202, words, anchor="middle")
        drawing.text(x + 63, 226, kind, size=13, fill=MUTED, anchor="middle")
    for x, sign in ((188, "+"), (366, "clip"), (544, "x"), (722, "=")):
        drawing.text(x, 214, sign, size=15, anchor="middle", bold=True)
    drawing.lines(
        36,
        278,
        [
            "A float outside the range of its type can't be exported: training keeps it inside (model.clip_weights).",
            "Integers give the same value on every machine, and a vector unit holds 4 times as many int8 as float32.",
            "Fake quantization trains with the rounded numbers, so that they are what is learned to be right.",
        ],
    )
    return drawing


DRAWINGS: Mapping[str, Callable[[], Drawing]] = {
    "nnue-overview.svg": overview,
    "nnue-features.svg": two_views,
    "nnue-update.svg": update,
    "nnue-king-buckets.svg": king_buckets,
    "nnue-threats.svg": threats,
    "nnue-activations.svg": activations,
    "nnue-layers.svg": layers,
    "nnue-quantization.svg": quantization,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, draw in DRAWINGS.items():
        (folder / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
