"""The worlds that are trained on: the synthetic one of Libimseti's shape, and a billion ratings made on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tacit import Policy, RatingScale
from tacit.evaluation.world import LIBIMSETI_SHAPE, WorldShape, make_world
from tacit.learning import ReportMatrix
from tacit.learning.matrix import Rows
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

SCALE = RatingScale.parse("1:10:1")
BILLION = WorldShape(8 * LIBIMSETI_SHAPE.people, 8 * LIBIMSETI_SHAPE.items, 1_000_000_000)

_DIMENSIONS = 8
_ACTIVITY_SPREAD, _POPULARITY_SPREAD, _POPULARITY_DECAY = 1.0, 1.0, 4.0
_SPARE = 1.08  # pairs drawn for one that is kept: some are drawn twice
_AT_ONCE = 1 << 26


def policy() -> Policy:
    """Return the policy whose symbols stand for the ratings themselves: what is measured is speed."""
    return Policy.make("randomized-response", SCALE, "1")


def libimseti() -> ReportMatrix:
    """Make the world that the other benchmarks train on."""
    world = make_world(SCALE, shape=LIBIMSETI_SHAPE)
    symbols = (world.ratings - np.float32(SCALE.low)).astype(np.uint8)
    return ReportMatrix.of_symbols(world.users, world.items, symbols, policy())


@dataclass(frozen=True, slots=True, eq=False)
class _Tastes:
    """What lies behind the ratings: factors of both sides."""

    users: Tensor
    items: Tensor

    def codes(self, users: Tensor, items: Tensor, noise: torch.Generator) -> Tensor:
        """Rate pairs from 0 to 9."""
        scores = (self.users[users] * self.items[items]).sum(dim=1)
        scores += torch.randn(len(users), generator=noise, device=users.device)
        return (5.0 + 2.0 * scores).clamp_(0, 9).to(torch.uint8)


def billion(shape: WorldShape = BILLION, seed: int = 0) -> ReportMatrix:
    """Draw who rates what on the device: long-tailed activity and popularity, every pair once."""
    device = torch.device("cuda")
    rng = torch.Generator(device).manual_seed(seed)
    pairs = _pairs(shape, rng, device)
    users, items = pairs // shape.items, pairs % shape.items
    del pairs
    users, items = _by_count(users, shape.people), _by_count(items, shape.items)
    shapes = (shape.people, _DIMENSIONS), (shape.items, _DIMENSIONS)
    tastes = _Tastes(*(torch.randn(size, generator=rng, device=device) / _DIMENSIONS**0.25 for size in shapes))
    codes = torch.cat(
        [tastes.codes(*part, rng) for part in zip(users.split(_AT_ONCE), items.split(_AT_ONCE), strict=True)]
    )
    by_user = _rows(users, items, codes, shape.people)
    by_item = _rows(items, users, codes, shape.items)
    made = policy()
    people, things = (Vocabulary(np.arange(count)) for count in (shape.people, shape.items))
    values = np.asarray(made.channel.symbol_values, dtype=np.float32)
    return ReportMatrix(SCALE, people, things, by_user, by_item, values, (made,))


def _pairs(shape: WorldShape, rng: torch.Generator, device: torch.device) -> Tensor:
    """Draw different pairs of users and items as single numbers, rising."""
    activity = torch.exp(_ACTIVITY_SPREAD * torch.randn(shape.people, generator=rng, device=device)).double()
    place = torch.rand(shape.items, generator=rng, device=device)
    spread = _POPULARITY_SPREAD * torch.randn(shape.items, generator=rng, device=device)
    popularity = torch.exp(spread - _POPULARITY_DECAY * place).double()
    ends = activity.cumsum(0) / activity.sum(), popularity.cumsum(0) / popularity.sum()
    drawn = torch.empty(int(_SPARE * shape.ratings), dtype=torch.int64, device=device)
    for part in drawn.split(_AT_ONCE):
        chances = (torch.rand(len(part), generator=rng, device=device, dtype=torch.float64) for _ in ends)
        users, items = (torch.searchsorted(end, chance) for end, chance in zip(ends, chances, strict=True))
        part.copy_(users.clamp_(max=shape.people - 1) * shape.items + items.clamp_(max=shape.items - 1))
    found = torch.unique_consecutive(drawn.sort().values)
    if len(found) < shape.ratings:
        raise RuntimeError(f"only {len(found)} different pairs were drawn; raise _SPARE")
    return found


def _by_count(codes: Tensor, size: int) -> Tensor:
    """Number the busiest first, as tacit does."""
    order = torch.argsort(torch.bincount(codes, minlength=size), descending=True, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(size, device=codes.device)
    return place[codes]


def _rows(rows: Tensor, columns: Tensor, codes: Tensor, size: int) -> Rows:
    """Sort by row and column, and bring the result home."""
    order = (rows * (1 << 32) + columns).argsort()
    starts = torch.zeros(size + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=size), 0, out=starts[1:])
    arrays: list[Any] = [starts.cpu().numpy(), columns[order].int().cpu().numpy(), codes[order].cpu().numpy()]
    return Rows(*arrays)
