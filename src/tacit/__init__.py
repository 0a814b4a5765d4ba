"""tacit: recommendations learned from ratings that people never disclose.

>>> import tacit
>>> scale = tacit.RatingScale.parse("1:5:1")
>>> policy = tacit.Policy.make("bounded-laplace", scale, epsilon="1")
>>> policy.channel.exact_loss <= 1
True
"""

from tacit.device import Device, Quote
from tacit.errors import TacitError
from tacit.privacy.accounting import Totals, total_loss
from tacit.privacy.audit import audit_policy
from tacit.privacy.channel import Channel
from tacit.privacy.compact import decode_compact, encode_compact
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.noise import compare_noise
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.report import Report, decode_json, encode_json
from tacit.privacy.scale import RatingScale

__version__ = "0.1.0"

__all__ = [
    "MECHANISMS",
    "Channel",
    "Device",
    "Policy",
    "Prior",
    "Quote",
    "RatingScale",
    "Report",
    "TacitError",
    "Totals",
    "audit_policy",
    "build_channel",
    "compare_noise",
    "decode_compact",
    "decode_json",
    "encode_compact",
    "encode_json",
    "total_loss",
]
