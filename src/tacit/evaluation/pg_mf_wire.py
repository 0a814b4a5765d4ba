"""What crosses the wire in PG-MF: the random sign, the messages in bytes, and what they add up to.

Every round the provider sends each device a broadcast (the item factors), and
each device sends back an answer: which cell of the projected gradient it drew,
and one random sign. Both sides read what they get as strictly as a stranger's.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError, ReportError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_RANK = 1_000
MOST_PROJECTED_ROWS = 2**16 - 1
MOST_ITEMS = 2**31 - 1
LARGEST_FACTOR = 1_000.0  # beyond this the devices' equations lose their digits

_MARK = b"PGV1"
_HEADER = struct.Struct("<4sIHHQ")  # mark, items, rank, projected rows, projection seed
_WIDE = 8  # bytes of the whole number an answer is packed in, before its empty bytes are cut


@dataclass(frozen=True, slots=True)
class RandomSign:
    """The randomised bit: plus or minus, leaning to the sign of a number in [-1, 1].

    With e = epsilon, P(plus | x) = (x (e^e - 1) + e^e + 1) / (2 (e^e + 1)), which is (1 + x tanh(e / 2)) / 2.
    """

    epsilon: float

    @property
    def contrast(self) -> float:
        """(e^e - 1) / (e^e + 1): how much of the number's sign is left; 1 without noise."""
        return math.tanh(self.epsilon / 2)

    def chance_of_plus(self, numbers: Floats) -> Floats:
        """Return P(plus) for every number, clipped to [-1, 1]."""
        return (1.0 + np.clip(numbers, -1.0, 1.0) * self.contrast) / 2.0

    def draw(self, numbers: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw a sign for every number: true for plus."""
        return rng.random(len(numbers)) < self.chance_of_plus(numbers)

    def magnitude(self, cells: int) -> float:
        """Return B, such that plus or minus B about one of so many cells is an unbiased estimate of that cell."""
        return cells / self.contrast

    def noise_variance(self, cells: int, devices: int) -> float:
        """Return the variance of a cell's average over devices, an upper bound that is tight for small signals."""
        return cells / devices / self.contrast**2


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast:
    """What the provider sends: one row of factors per item, and the seed of the public projection.

    The seed stands for the projection matrix, which would take thousands of
    times as many bytes; anyone can draw the matrix from it.
    """

    item_factors: NDArray[np.float32]
    projected_rows: int
    projection_seed: int

    def __post_init__(self) -> None:
        """Refuse factors that no honest provider sends."""
        items, rank = self.item_factors.shape
        limits = (MOST_ITEMS, MOST_RANK, MOST_PROJECTED_ROWS)
        if not all(1 <= size <= most for size, most in zip((items, rank, self.projected_rows), limits, strict=True)):
            msg = f"{items} items, rank {rank}, {self.projected_rows} projected rows are not 1 to {limits} of each"
            raise InvalidInputError(msg)
        if not bool(np.all(np.abs(self.item_factors) <= LARGEST_FACTOR)):  # also false of a NaN
            msg = f"an item factor is not a number from -{LARGEST_FACTOR:g} to {LARGEST_FACTOR:g}; fetch them again"
            raise InvalidInputError(msg)

    def projection(self) -> NDArray[np.float32]:
        """Draw the public projection: projected rows x items, from N(0, 1 / projected rows)."""
        shape = (self.projected_rows, len(self.item_factors))
        normal = np.random.default_rng(self.projection_seed).standard_normal(shape, dtype=np.float32)
        return normal / np.float32(self.projected_rows**0.5)

    def answer_format(self) -> AnswerFormat:
        """Return the format in which a device answers this broadcast."""
        return AnswerFormat(self.projected_rows, self.item_factors.shape[1])


def encode_broadcast(broadcast: Broadcast) -> bytes:
    """Write a header and the factors, item by item, as little-endian 32-bit floats."""
    items, rank = broadcast.item_factors.shape
    header = _HEADER.pack(_MARK, items, rank, broadcast.projected_rows, broadcast.projection_seed)
    return header + broadcast.item_factors.astype("<f4").tobytes()


def decode_broadcast(message: bytes) -> Broadcast:
    """Read a broadcast, or say why it is none."""
    if len(message) < _HEADER.size or message[: len(_MARK)] != _MARK:
        msg = (
            f"a message of {len(message)} bytes does not begin with a broadcast's {_HEADER.size} bytes; fetch it again"
        )
        raise InvalidInputError(msg)
    _, items, rank, projected_rows, seed = _HEADER.unpack_from(message)
    expected = _HEADER.size + 4 * items * rank
    if len(message) != expected:
        msg = f"a broadcast of {items} items x rank {rank} takes {expected} bytes, not {len(message)}; fetch it again"
        raise InvalidInputError(msg)
    factors = np.frombuffer(message, dtype="<f4", offset=_HEADER.size).reshape(items, rank)
    return Broadcast(factors.astype(np.float32, copy=False), projected_rows, seed)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One answer of each device: the cell it drew, and whether its sign is plus."""

    rows: NDArray[np.int64]
    factors: NDArray[np.int64]
    plus: NDArray[np.bool_]


@dataclass(frozen=True)
class AnswerFormat:
    """How answers about a projected gradient of this shape are written.

    An answer is the whole number 2 (row x rank + factor) + plus, little-endian,
    in as many bytes as the largest one needs.

    >>> AnswerFormat(projected_rows=50, rank=3).size
    2
    """

    projected_rows: int
    rank: int

    @property
    def cells(self) -> int:
        """How many cells the projected gradient has."""
        return self.projected_rows * self.rank

    @cached_property
    def size(self) -> int:
        """The bytes of one answer."""
        return ((2 * self.cells - 1).bit_length() + 7) // 8

    def encode(self, answers: Answers) -> NDArray[np.uint8]:
        """Write one message per device: a row of the result."""
        in_range = (answers.rows >= 0) & (answers.rows < self.projected_rows)
        in_range &= (answers.factors >= 0) & (answers.factors < self.rank)
        if not in_range.all():
            first = int(np.argmin(in_range))
            cell = f"row {answers.rows[first]}, factor {answers.factors[first]}"
            msg = f"{cell} is not a cell of {self.projected_rows} rows x {self.rank} factors; draw another"
            raise ReportError(msg)
        numbers = 2 * (answers.rows * self.rank + answers.factors) + answers.plus
        return numbers.astype("<u8").view(np.uint8).reshape(-1, _WIDE)[:, : self.size]

    def decode(self, messages: NDArray[np.uint8]) -> Answers:
        """Read one message per row, or refuse the first that no device would send."""
        if messages.dtype != np.uint8 or messages.ndim != 2 or messages.shape[1] != self.size:  # noqa: PLR2004 - a table
            msg = f"answers of shape {messages.shape}, type {messages.dtype} are not {self.size} bytes each; send bytes"
            raise ReportError(msg)
        wide = np.zeros((len(messages), _WIDE), dtype=np.uint8)
        wide[:, : self.size] = messages
        numbers = wide.view("<u8")[:, 0]
        most = 2 * self.cells - 1
        if len(numbers) and numbers.max() > most:
            first = int(np.argmax(numbers > most))
            msg = f"answer {numbers[first]} (number {first + 1}) is over {most}, the largest there is; send it again"
            raise ReportError(msg)
        rows, factors = np.divmod(numbers.astype(np.int64) >> 1, self.rank)
        return Answers(rows, factors, (numbers & 1).astype(np.bool_))


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes of a run: the length of every message one device got and sent; all devices' are equally long.

    The provider sends once more than it hears: the last factors are what the
    devices predict with.
    """

    devices: int
    to_device: tuple[int, ...]
    from_device: tuple[int, ...]

    @property
    def per_round(self) -> tuple[int, int]:
        """Bytes to one device, and from it, in one round."""
        return self.to_device[0], self.from_device[0]

    @property
    def per_user(self) -> tuple[int, int]:
        """Bytes to one device, and from it, in the whole run."""
        return sum(self.to_device), sum(self.from_device)

    @property
    def total(self) -> int:
        """Bytes both ways, all devices and rounds together."""
        return self.devices * sum(self.per_user)
