"""Every deliberate error of tacit.

TacitError
├── InvalidInputError (ValueError)      something given to tacit is not usable
│   ├── ScaleError                      a rating scale that makes no sense
│   ├── RatingError                     a rating that is not on the scale
│   ├── EpsilonError                    a privacy parameter out of range
│   ├── MechanismError                  an unknown or unsuitable mechanism
│   ├── PriorError                      a rating histogram that makes no sense
│   ├── ChannelError                    an integer table that is not a channel
│   │   └── PrivacyClaimError           a table whose loss exceeds its epsilon
│   ├── PolicyError                     a policy document that cannot be obeyed
│   ├── ReportError                     a report that cannot be read or encoded
│   ├── TableError                      a CSV or Parquet file with unusable content
│   ├── ModelError                      a model, its options or its files are not usable
│   └── DataSetError                    a data set is unknown, absent, damaged or not to be had
├── DeviceError                         the device refuses; nothing was said or spent
│   ├── ConsentError                    no consent to a policy was given
│   ├── RatingChangedError              an item was rated differently before
│   ├── BudgetError                     the lifetime cap would be crossed
│   ├── LedgerError                     the ledger cannot be trusted or written
│   └── ProviderError                   the provider cannot be reached, refuses, or its answer cannot be used
├── ProviderSideError                   the provider's side cannot do what was asked
│   ├── StoreError                      the database cannot be used, or refused to keep something
│   │   └── SchemaError                 the database has another schema than this tacit
│   ├── BusyError                       more is waiting to be stored than there is room for
│   └── RunError                        a training run cannot be started, or is unknown
├── FileError (OSError)                 a file cannot be read or written
├── EngineError (RuntimeError)          an engine that computes elsewhere cannot be started, or gave up
├── WorkerError (RuntimeError)          a process that computed for another one ended
└── MissingExtraError (ImportError)     an optional library is not installed

A message names the value, the limit and the remedy, in one line.
"""

from __future__ import annotations


class TacitError(Exception):
    """Base of every error tacit raises on purpose."""


class InvalidInputError(TacitError, ValueError):
    """Something given to tacit is not usable."""


class ScaleError(InvalidInputError):
    """A rating scale makes no sense."""


class RatingError(InvalidInputError):
    """A rating is not on the scale."""


class EpsilonError(InvalidInputError):
    """A privacy parameter is out of range."""


class MechanismError(InvalidInputError):
    """A mechanism is unknown, or unsuitable for what was asked."""


class PriorError(InvalidInputError):
    """A rating histogram makes no sense."""


class ChannelError(InvalidInputError):
    """An integer table is not a channel."""


class PrivacyClaimError(ChannelError):
    """The exact loss of a table exceeds the epsilon claimed for it."""


class PolicyError(InvalidInputError):
    """A policy document cannot be obeyed."""


class ReportError(InvalidInputError):
    """A report cannot be read or encoded."""


class TableError(InvalidInputError):
    """A CSV or Parquet file has unusable content."""


class ModelError(InvalidInputError):
    """A model, its options or its files are not usable."""


class DataSetError(InvalidInputError):
    """A data set is unknown, absent, damaged or not to be had."""


class DeviceError(TacitError):
    """The device refuses; nothing was said or spent."""


class ConsentError(DeviceError):
    """No consent to a policy was given."""


class RatingChangedError(DeviceError):
    """An item was rated differently before."""


class BudgetError(DeviceError):
    """The lifetime cap would be crossed."""


class LedgerError(DeviceError):
    """The ledger cannot be trusted or written."""


class ProviderError(DeviceError):
    """The provider cannot be reached, refuses, or its answer cannot be used.

    Attributes:
        code: The provider's own word for what is wrong, or `unreachable`, `too-slow`, `too-large` or `unusable`.
        detail: What the provider says about it, in one line, or nothing.
        status: The status of its answer, or None if there was none.
    """

    def __init__(self, message: str, *, code: str = "unusable", detail: str = "", status: int | None = None) -> None:
        """Say what is wrong, and what the provider said of it."""
        super().__init__(message)
        self.code, self.detail, self.status = code, detail, status


class ProviderSideError(TacitError):
    """The provider's side cannot do what was asked."""


class StoreError(ProviderSideError):
    """The database cannot be used, or refused to keep something."""


class SchemaError(StoreError):
    """The database has another schema than this tacit."""


class BusyError(ProviderSideError):
    """More is waiting to be stored than there is room for."""


class RunError(ProviderSideError):
    """A training run cannot be started, or is unknown."""


class FileError(TacitError, OSError):
    """A file cannot be read or written."""


class EngineError(TacitError, RuntimeError):
    """An engine that computes elsewhere, on a cluster or a GPU, cannot be started, or gave up."""


class WorkerError(TacitError, RuntimeError):
    """A process that computed for another one ended."""


class MissingExtraError(TacitError, ImportError):
    """An optional library is not installed."""
