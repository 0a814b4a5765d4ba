"""Learn from reports of an invented world, recommend, and take in somebody new."""

from __future__ import annotations

import numpy as np

from tacit import Policy, RatingScale
from tacit.evaluation.world import make_world
from tacit.learning import MogMfOptions, ReportMatrix, fit

rng = np.random.default_rng(1)
scale = RatingScale.parse("1:5:1")
world = make_world(scale)
policy = Policy.make("bounded-laplace", scale, epsilon="3")

# Every device draws one symbol for each rating; a simulation may use a seeded generator for that.
words = rng.integers(0, 2**64, len(world.users), dtype=np.uint64)
symbols = policy.channel.draw(scale.ranks_of(world.ratings), words)

# The provider sees users, items and symbols, and nothing else.
matrix = ReportMatrix.of_symbols(world.users, world.items, symbols, policy)
model = fit(matrix, MogMfOptions(rank=2, regularisation=5.0), rng)
print(f"{len(model.trace.iterations)} iterations, log-likelihood {model.trace.iterations[-1].likelihood:.4f} a report")

titles = world.titles()
for item, rating in zip(model.recommend(7, n=3).items, model.recommend(7, n=3).ratings, strict=True):
    print(f"for person 7: {titles[int(item)]}, {rating:.2f} stars")

# Somebody the model has not seen: three reports, by what their symbols stand for.
newcomer = model.fold_in([10, 20, 30], policy.channel.symbol_values[[60, 5, 40]])
print("for the newcomer:", ", ".join(titles[int(item)] for item in model.recommend_for(newcomer, n=3).items))
