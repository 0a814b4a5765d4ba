"""Saying it: the person's own side, where true ratings live and stay."""

from tacit.device.batch import PerturbedFile, perturb_file
from tacit.device.device import Device, Quote
from tacit.device.ledger import LedgerEntry
from tacit.device.ratings import TrueRatings, read_true_ratings

__all__ = ["Device", "LedgerEntry", "PerturbedFile", "Quote", "TrueRatings", "perturb_file", "read_true_ratings"]
