"""What the report says beside its figures."""

from __future__ import annotations

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; color: #1c1b1f; }
h1 { font-size: 1.7rem } h2 { font-size: 1.25rem; margin-top: 2.4rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; vertical-align: top }
th:first-child, td:first-child { text-align: left }
table.words th, table.words td { text-align: left; min-width: 9rem }
table.words td:nth-child(3), table.words td:nth-child(5) { min-width: 20rem }
figure { margin: 1rem 0 } figcaption { max-width: 60rem; color: #444; font-size: .95rem }
svg { max-width: 100%; height: auto; background: #fff }
.holds { color: #1d6b34 } .holds-only-if { color: #8a5a00 } .does-not-hold { color: #a11218 }
details { margin-top: .3rem; color: #444 } .small { color: #555; font-size: .85rem }
""".strip()

INTRODUCTION = (
    "Every figure and table of <i>Private and Utility Enhanced Recommendations with Local Differential Privacy and "
    "Gaussian Mixture Model</i>, computed again, and each of its claims judged. The paper leaves open the rank, the "
    "number of Gaussians, any regularisation, which SVD is meant, and how its rivals were set; so every claim was "
    "checked under several readings, the one kindest to the paper among them. In the figures every method is at its "
    "best rank by the measure shown."
)

CAPTIONS = {
    "noise": "100,000 draws of noise for the ratings of MovieLens 100K, and the derived law on top. Bounded Laplace "
    "noise steps where the ends of the scale cut it off for each of the five ratings. Its law is Eqs. 4 and 5 of the "
    "paper, derived again from the density.",
    "mechanisms": "The same model on reports of either mechanism. Bands: one standard deviation over folds. Both "
    "mechanisms give the same privacy, epsilon for each rating; Laplace reports are not bounded.",
    "models": "The same reports, learned from by either model. SVD is the truncated decomposition of the matrix with "
    "an item's mean report in its gaps.",
    "pg-mf": "The two epsilons are not the same promise. That of BLP-MoG-MF covers the value of one rating, and a "
    "person with 100 ratings spends it 100 times; that of PG-MF covers a person's whole profile over all rounds, "
    "the items rated included. PG-MF predicts on the device, with the person's own true ratings. At this size its "
    "provider learns next to nothing at any of these epsilons: the error is about that of a person's own mean. "
    "<i>tacit</i> is channel-mf on the reports of bounded Laplace, its device with two controls: the visible pattern "
    "off, and reports not read, so that only who rated what is known.",
    "isgd": "Above: RMSE. Middle: F-score over the top 10 among the items held out, where recommending all of them "
    "scores what the grey line shows. Below: F-score over the top 10 among all items not rated in training; factors "
    "without much regularisation fill these lists with items that have few ratings, the non-private ones too, and a "
    "constant, whose ties go by item id, does better by chance. <i>tacit</i> is channel-mf on the reports of bounded "
    "Laplace, in one setting everywhere. A device has its own true ratings; the controls beside it say what it owes to "
    "the visible pattern of who rated what, and to reports.",
    "ideas": "What each idea gives, at the same epsilon. Each row adds to the row above it; the controls take away "
    "from the device on bounded Laplace reports what the provider sees of who rated what, or all that reports say.",
    "lists": "Lists of a device on tailored reports, in one setting everywhere, beside the best of BLP-MoG-MF, "
    "Laplace-MoG-MF, SVD on either's reports, ISGD and PG-MF, where they were run, every one tuned by the measure "
    "itself; the last column is ours without what reports say. Lists over all items weigh "
    "the predicted rating by how likely the person is to rate the item.",
    "readings": "Variations one at a time. ISGD's reports do better with least squares than with its gradient "
    "steps; the mixture matters for Laplace noise, which has heavy tails, and not for bounded noise. On heavy noise "
    "stopping early helps.",
    "controls": "PG-MF without two of our choices: devices that can express their own mean from the start, and steps "
    "that shrink with their noise. The publication fixes neither.",
    "world": "The full Libimseti file was not at hand; a synthetic world of its shape shows that everything runs at "
    "its size, one fold of ten at rank 1. It says nothing about real people.",
    "communication": "Bytes counted on the wire for MovieLens 100K at epsilon 1, sent as they really are. A report "
    "is a symbol; with it go the item and the policy, shared by a batch. Down, a person fetches the policy once. "
    "PG-MF sends all item factors to every person in every round.",
    "datasets": "What was used, beside what the paper says of its data. The paper gives Jester 2 million ratings of "
    "73,421 users: its first data set has 4,136,360 of them, its part 1 has 1,810,455 of 24,983 users and was used "
    "here. Libimseti is the part among the 2,000 most active raters. MovieLens 100K has no half stars.",
}

METHOD = """
<ul>
<li>Ten-fold cross-validation, seeded; MovieLens and Libimseti with two seeds of folds and noise. Only ratings learned
from are perturbed; errors are against true ratings held out, predictions cut off at the ends of the scale.</li>
<li>A reading that leaves several settings open chooses, in every fold, the one that is best by the measure judged in
all other folds of its seed, for every method alike. This looks at true ratings, which no provider has: it shows what a
method can reach, not what a provider would get. <i>Rank 3</i> is what the publication of ISGD uses; <i>best rank</i>:
1, 2, 3 or 5 (on Jester 1, 3 or 5); <i>tuned</i>: also the regularisation, the filling of gaps, the solver, steps and
rounds, in 8 to 16 settings for every method.</li>
<li>Better and worse mean that a t-test on pairs over folds and seeds, corrected for the overlap of training sets,
gives p &lt; 0.01; otherwise two methods count as even.</li>
<li>F-score: an item is relevant from 60 % of the width above the low end on; per person, averaged over those with a
relevant item held out. Rows with all measures are in <code>rows.csv</code>, single folds in
<code>folds.csv.gz</code>.</li>
</ul>
"""
