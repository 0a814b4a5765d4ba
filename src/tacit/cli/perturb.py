"""`tacit perturb`: true ratings in, reports out."""

from __future__ import annotations

import click

from tacit.cli.options import json_option, note, policy_option, print_json
from tacit.device import perturb_file
from tacit.privacy.exact import decimal_text
from tacit.privacy.policy import Policy


@click.command()
@click.argument("ratings")
@policy_option
@click.option("-o", "--output", required=True, metavar="FILE", help="Where the reports go: .parquet or .csv.")
@click.option("--round", "rounding", is_flag=True, help="Round ratings between two steps to the nearer one.")
@json_option
def perturb(*, ratings: str, policy_path: str, output: str, rounding: bool, as_json: bool) -> None:
    """Perturb a file of ratings, as the people's own devices would.

    RATINGS is CSV or Parquet with the columns user, item and rating. Every run
    draws afresh with the operating system's randomness and spends epsilon again.

    \b
    Example:
      tacit perturb ratings.csv --policy policy.json -o reports.parquet
    """
    policy = Policy.load(policy_path)
    done = perturb_file(ratings, policy, output, rounding=rounding)
    note(
        f"wrote {done.reports:,} reports to {output}; the busiest user spent epsilon "
        f"{decimal_text(done.largest_user_total)} in all. A second run would draw afresh and spend it again: "
        "publish one output only."
    )
    if as_json:
        print_json(
            {
                "reports": done.reports,
                "policy": done.policy,
                "epsilon": float(policy.epsilon),
                "largest_user_total": float(done.largest_user_total),
                "output": output,
            }
        )
