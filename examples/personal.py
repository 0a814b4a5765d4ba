"""The whole way: reports from everybody, a model at the provider, and a ranking on one device from its own ratings."""

from __future__ import annotations

import numpy as np

from tacit import Policy, RatingScale
from tacit.device import rank_items
from tacit.evaluation.world import make_world
from tacit.learning import ChannelMfOptions, ReportMatrix, fit

rng = np.random.default_rng(1)
scale = RatingScale.parse("1:5:1")
world = make_world(scale)
policy = Policy.make("tailored", scale, epsilon="1")  # on this scale: one bit a rating

# The provider hears symbols, learns through the channel it published, and publishes what it learned of items.
words = rng.integers(0, 2**64, len(world.users), dtype=np.uint64)
symbols = policy.channel.draw(scale.ranks_of(world.ratings), words)
model = fit(ReportMatrix.of_symbols(world.users, world.items, symbols, policy), ChannelMfOptions(), rng)
published = model.item_model().as_published()
print(f"published: {len(published.items)} items, no user among them")

# One device holds its own true ratings and ranks all items by itself; nothing is sent.
titles, person = world.titles(), 7
own = world.users == person
ranking = rank_items(published, dict(zip(world.items[own].tolist(), world.ratings[own].tolist(), strict=True)))
for suggestion in ranking.recommend(3):
    reasons = ", ".join(f"{titles[int(one.item)]} ({one.effect:+.2f})" for one in ranking.explain(suggestion.item, 2))
    print(f"{titles[int(suggestion.item)]}, {suggestion.rating:.2f} stars, because of {reasons}")
