"""Where a prior comes from: a file, a stated shape, or earlier reports; never true ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import PriorError, RatingError, TableError
from tacit.learning.deconvolution import fit_prior
from tacit.learning.reports import Alphabet, tally
from tacit.privacy.canonical import canonical_json, read_json
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.report import POLICY_DOCUMENT_KEY
from tacit.tables import is_parquet, read_columns, read_metadata, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.learning.deconvolution import Observation
    from tacit.learning.reports import RowPolicies
    from tacit.privacy.scale import RatingScale
    from tacit.tables import Column

__all__ = ["fit_prior", "load_prior", "prior_from_histogram", "prior_from_reports"]

_SHOWN_ID = 12
_REMEDY = "use reports written by tacit perturb"


def load_prior(source: str, scale: RatingScale) -> Prior:
    """Read a prior: `uniform`, `generic`, a CSV file of rating and weight, or a Parquet file of reports."""
    if source == "uniform":
        return Prior.uniform(scale)
    if source == "generic":
        return Prior.generic(scale)
    return prior_from_reports(source, scale) if is_parquet(source) else prior_from_histogram(source, scale)


def prior_from_histogram(path: str | Path, scale: RatingScale) -> Prior:
    """Read a CSV file with the columns rating and weight; a rating that is absent has weight 0."""
    rating, weight = read_columns(path, ["rating", "weight"])
    weights = weight.numbers()
    try:
        ranks = scale.ranks_of(rating.numbers())
    except RatingError as error:
        raise TableError(f"{path}: {error}") from error
    if len(set(ranks.tolist())) < len(ranks):
        raise TableError(f"{path} names a rating twice; give each rating one weight")
    by_rank = np.zeros(scale.size)
    by_rank[ranks] = weights
    return Prior.of(scale, by_rank)


def prior_from_reports(path: str | Path, scale: RatingScale) -> Prior:
    """Estimate the rating histogram from reports and the policies their file carries."""
    policies = _policies_of(path)
    for policy in policies:
        if policy.scale != scale:
            found = f"the reports in {path} are on scale {policy.scale}, not {scale}"
            raise PriorError(f"{found}; use reports on that scale")
    return fit_prior(_observations(path, Alphabet.of(policies)))


def _policies_of(path: str | Path) -> list[Policy]:
    """Read the document of the policy, or a JSON list of the documents of all policies, that a file carries."""
    carried = read_metadata(path, POLICY_DOCUMENT_KEY)
    if carried is None:
        raise PriorError(f"{path} does not carry its policy; {_REMEDY}")
    if not carried.lstrip().startswith("["):
        return [Policy.from_json(carried)]
    try:
        documents = read_json(carried)
    except ValueError as error:
        raise PriorError(f"the policies that {path} carries cannot be read ({error}); {_REMEDY}") from error
    return [Policy.from_json(canonical_json(document)) for document in documents]


def _observations(path: str | Path, alphabet: Alphabet) -> list[Observation]:
    """Count the symbols of every policy."""
    columns = read_table(path, ["symbol"], optional=["policy"], repetitive=["policy"])
    of_policy = _policy_of_rows(columns.get("policy"), alphabet, str(path))
    codes = alphabet.encode(columns["symbol"].whole_numbers(), of_policy, str(path))
    counts = np.split(tally(codes, alphabet.size), np.cumsum(alphabet.sizes)[:-1])
    return [(policy.channel, count) for policy, count in zip(alphabet.policies, counts, strict=True)]


def _policy_of_rows(column: Column | None, alphabet: Alphabet, label: str) -> RowPolicies:
    if column is None:
        if len(alphabet.policies) > 1:
            raise PriorError(f"{label} carries several policies but has no column 'policy'; add it, or {_REMEDY}")
        return 0
    ids = column.ids()
    found = np.array([alphabet.find(str(policy)) for policy in ids.distinct], dtype=np.int16)
    if found.min() < 0:
        shown = str(ids.distinct[int(np.argmin(found))])[:_SHOWN_ID]
        raise PriorError(f"{label} holds reports of policy {shown!r}, which it does not carry; {_REMEDY}")
    return found[ids.codes]
