"""Learning from reports: what perturbed ratings tell, all together."""

from tacit.learning.fit import fit, fit_with
from tacit.learning.matrix import ReportMatrix, read_reports
from tacit.learning.memory import memory_needed
from tacit.learning.model import Model
from tacit.learning.options import (
    MODELS,
    ChannelMfOptions,
    GlobalMeanOptions,
    MfAlsOptions,
    MfSgdOptions,
    MogMfOptions,
    OffsetsOptions,
    Options,
    SvdOptions,
)
from tacit.learning.trace import FitTrace, Iteration
from tacit.privacy.item_model import ItemModel

__all__ = [
    "MODELS",
    "ChannelMfOptions",
    "FitTrace",
    "GlobalMeanOptions",
    "ItemModel",
    "Iteration",
    "MfAlsOptions",
    "MfSgdOptions",
    "Model",
    "MogMfOptions",
    "OffsetsOptions",
    "Options",
    "ReportMatrix",
    "SvdOptions",
    "fit",
    "fit_with",
    "memory_needed",
    "read_reports",
]
