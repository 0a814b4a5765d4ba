"""One rating's way: a provider publishes a policy, a device says a rating under it, the provider reads the report."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tacit import Device, Policy, Prior, RatingScale, decode_compact, encode_compact

# The provider makes a policy and publishes the document.
scale = RatingScale.parse("1:5:1")
published = Policy.make("tailored", scale, epsilon="1").to_json()

# The device trusts nothing but the integers in it.
policy = Policy.from_json(published)
with TemporaryDirectory() as folder, Device(Path(folder) / "ledger", lifetime_epsilon=20) as device:
    device.consent(policy)
    quote = device.quote({"The Quiet Harbour": 4, "Seven Lanterns": 2})
    print(f"saying this costs epsilon {quote.charge}, {quote.total_after} of {quote.lifetime_epsilon} in all")
    batch = encode_compact(device.spend(quote), policy)
    print(f"{len(batch)} bytes leave the device; it has spent {device.epsilon_spent}")

# The provider sees symbols, and knows what a symbol tells on average.
values = policy.channel.calibrate(Prior.generic(scale)).values
for report in decode_compact(batch, {policy.id: policy}):
    print(f"{report.item}: symbol {report.symbol}, worth {values[report.symbol]:.2f} to the provider")
