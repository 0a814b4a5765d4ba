"""`tacit audit`: the exact loss of a policy, and what watching its sampler proves."""

from __future__ import annotations

import click

from tacit.cli.options import json_option, policy_option, print_json
from tacit.files import read_bytes
from tacit.privacy.audit import audit_policy
from tacit.privacy.exact import decimal_text
from tacit.privacy.policy import LARGEST_DOCUMENT, read_claim


@click.command()
@policy_option
@click.option("--samples", type=int, default=1_000_000, show_default=True, help="Draws of the real sampler.")
@click.option("--confidence", type=float, default=0.99, show_default=True, help="Of the lower bound.")
@json_option
@click.pass_context
def audit(ctx: click.Context, *, policy_path: str, samples: int, confidence: float, as_json: bool) -> None:
    """Audit a policy: exact loss from the integers, lower bound from draws, verdict.

    Ends with status 2 if the claim is violated.

    \b
    Example:
      tacit audit --policy policy.json --samples 1000000
    """
    claim = read_claim(read_bytes(policy_path, limit=LARGEST_DOCUMENT))
    result = audit_policy(claim, samples=samples, confidence=confidence)
    ratio = result.worst_ratio
    if as_json:
        print_json(
            {
                "policy": result.policy,
                "epsilon": float(result.epsilon),
                "exact_loss": result.exact_loss,
                "worst_ratio": f"{ratio.numerator}/{ratio.denominator}",
                "lower_bound": result.lower_bound,
                "confidence": result.confidence,
                "samples": result.samples,
                "verdict": result.verdict,
            }
        )
    else:
        click.echo(f"claimed      epsilon {decimal_text(result.epsilon)}")
        click.echo(f"exact loss   {result.exact_loss:.9f}  (worst ratio {ratio.numerator}/{ratio.denominator})")
        click.echo(f"lower bound  {result.lower_bound:.4f}  ({samples:,} draws, {confidence:.0%} sure)")
        click.echo(f"verdict      {result.verdict}")
    if result.verdict == "violated":
        click.echo(f"tacit: {policy_path} loses more than the epsilon it claims; do not use it", err=True)
        ctx.exit(2)
