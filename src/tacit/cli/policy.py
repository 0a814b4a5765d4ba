"""`tacit policy`: make, show and verify policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tacit.cli.options import epsilon_option, json_option, print_json, print_table, scale_option
from tacit.errors import ChannelError, PolicyError
from tacit.files import read_bytes
from tacit.learning.prior import load_prior
from tacit.privacy.exact import decimal_text, log_ratio
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import LARGEST_DOCUMENT, Policy, PolicyClaim, read_claim
from tacit.privacy.prior import Prior

if TYPE_CHECKING:
    from tacit.privacy.scale import RatingScale


@click.group()
def policy() -> None:
    """Make, show and verify policies: what devices are asked to obey.

    \b
    Example:
      tacit policy new --scale 1:5:1 --epsilon 1 -o policy.json
      tacit policy verify policy.json
    """


@policy.command()
@scale_option
@epsilon_option
@click.option("--mechanism", default="bounded-laplace", show_default=True, help=f"One of {', '.join(MECHANISMS)}.")
@click.option(
    "--prior",
    "prior_source",
    metavar="SOURCE",
    help="For tailored: uniform, a CSV file of rating,weight from public knowledge, or a Parquet file of earlier "
    "reports under any policy. Never from true ratings. Default: a generic bell at 0.6 of the width.",
)
@click.option("-o", "--output", default="policy.json", show_default=True, metavar="FILE", help="Where to write it.")
@json_option
def new(
    *, scale: RatingScale, epsilon: str, mechanism: str, prior_source: str | None, output: str, as_json: bool
) -> None:
    """Make a policy and write it to a file.

    The mechanism tailored fits its reports to a prior: what is held likely of ratings before they are reported. A prior
    comes from public knowledge or from perturbed reports, never from true ratings; a wrong one costs accuracy, not
    privacy.

    \b
    Example:
      tacit policy new --scale 1:5:1 --epsilon 1 --mechanism bounded-laplace -o policy.json
      tacit policy new --scale 1:5:1 --epsilon 1 --mechanism tailored --prior reports.parquet -o tailored.json
    """
    if prior_source is not None and mechanism != "tailored":
        raise click.UsageError(f"--prior is for the mechanism tailored, not {mechanism}; leave it out")
    prior = None if prior_source is None else load_prior(prior_source, scale)
    made = Policy.make(mechanism, scale, epsilon, prior)
    made.save(output)
    if as_json:
        print_json(_description(made) | {"output": output})
    else:
        click.echo(
            f"wrote {output}: {mechanism} on {scale}, epsilon {epsilon}, exact loss {made.channel.exact_loss:.6f}"
        )
        click.echo(f"id {made.id}")


@policy.command()
@click.argument("path", metavar="POLICY")
@json_option
def show(*, path: str, as_json: bool) -> None:
    """Show what a policy makes of each rating.

    \b
    Example:
      tacit policy show policy.json
    """
    shown = Policy.load(path)
    if as_json:
        print_json(_description(shown))
        return
    channel = shown.channel
    click.echo(f"policy     {shown.id}")
    click.echo(f"mechanism  {shown.mechanism} on scale {shown.scale}")
    click.echo(f"epsilon    {decimal_text(shown.epsilon)} per report; exact loss {channel.exact_loss:.9f}")
    click.echo(f"report     one of {channel.weights.symbols} symbols, {channel.bits} bits")
    rows = [[f"{entry[name]:.4g}" for name in ("rating", "mean", "bias", "deviation")] for entry in _ranks(shown)]
    print_table(["rating", "mean report", "bias", "deviation"], rows)


@policy.command()
@click.argument("path", metavar="POLICY")
@json_option
@click.pass_context
def verify(ctx: click.Context, *, path: str, as_json: bool) -> None:
    """Verify a policy as a device does: from its integers alone.

    \b
    Example:
      tacit policy verify policy.json
    """
    claim, reason = _judge(read_bytes(path, limit=LARGEST_DOCUMENT))
    loss = None if claim is None else log_ratio(claim.weights.worst_ratio)
    if as_json:
        print_json(
            {
                "valid": reason is None,
                "id": claim and claim.id,
                "epsilon": claim and float(claim.epsilon),
                "exact_loss": loss,
                "reason": reason,
            }
        )
    elif reason is None and claim is not None:
        click.echo(f"valid: exact loss {loss:.9f} <= epsilon {decimal_text(claim.epsilon)}, id {claim.id}")
    if reason is not None:
        click.echo(f"tacit: {path} is not valid: {reason}", err=True)
    ctx.exit(0 if reason is None else 2)


def _judge(document: bytes) -> tuple[PolicyClaim | None, str | None]:
    """Return what the document claims, as far as it can be read, and what is wrong with it."""
    try:
        claim = read_claim(document)
    except PolicyError as error:
        return None, str(error)
    try:
        Policy.judge(claim)
    except ChannelError as error:
        return claim, str(error)
    return claim, None


def _description(described: Policy) -> dict[str, Any]:
    channel = described.channel
    prior = Prior.generic(described.scale)
    return {
        "id": described.id,
        "mechanism": described.mechanism,
        "scale": str(described.scale),
        "epsilon": float(described.epsilon),
        "exact_loss": channel.exact_loss,
        "worst_ratio": f"{channel.worst_ratio.numerator}/{channel.worst_ratio.denominator}",
        "symbols": channel.weights.symbols,
        "bits": channel.bits,
        "noise_deviation": channel.calibrate(prior).noise_deviation,
        "ratings": _ranks(described),
    }


def _ranks(described: Policy) -> list[dict[str, float]]:
    channel = described.channel
    columns = zip(described.scale.ratings, channel.mean, channel.bias, channel.variance**0.5, strict=True)
    return [dict(zip(("rating", "mean", "bias", "deviation"), map(float, row), strict=True)) for row in columns]
