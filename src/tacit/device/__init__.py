"""Saying it: the person's own side, where true ratings live and stay."""

from tacit.device.batch import PerturbedFile, perturb_file
from tacit.device.client import Client
from tacit.device.device import Device, Quote
from tacit.device.ledger import LedgerEntry
from tacit.device.own_ratings import read_own_ratings
from tacit.device.personal import Person, fit_person
from tacit.device.ranking import PersonalRanking, Reason, Suggestion, rank_items
from tacit.device.ratings import TrueRatings, read_true_ratings

__all__ = [
    "Client",
    "Device",
    "LedgerEntry",
    "Person",
    "PersonalRanking",
    "PerturbedFile",
    "Quote",
    "Reason",
    "Suggestion",
    "TrueRatings",
    "fit_person",
    "perturb_file",
    "rank_items",
    "read_own_ratings",
    "read_true_ratings",
]
