"""Training: what a provider does with its reports before, while and after a model is fitted."""

from tacit.provider.store.runs import Run, RunRequest, RunStore
from tacit.provider.training.published import PublishedModel
from tacit.provider.training.request_options import checked_options
from tacit.provider.training.schedule import Schedule, parse_interval
from tacit.provider.training.settings import TrainingSettings
from tacit.provider.training.supervisor import Trainer

__all__ = [
    "PublishedModel",
    "Run",
    "RunRequest",
    "RunStore",
    "Schedule",
    "Trainer",
    "TrainingSettings",
    "checked_options",
    "parse_interval",
]
