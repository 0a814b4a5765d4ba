"""The client: a device's own side of the HTTP API, which treats the provider as a stranger."""

from __future__ import annotations

import threading
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tacit.device.account import load_account, save_account
from tacit.device.answers import LARGEST_STORE, Sent, Stored, problem_of, recommendations_of, sent_of, stored_of
from tacit.device.exchange import NO_CONTENT, OK, Request
from tacit.device.published import Published
from tacit.errors import DeviceError, PolicyError, ProviderError
from tacit.privacy.compact import encode_compact
from tacit.privacy.exact import parse_canonical_decimal
from tacit.privacy.report import MOST_REPORTS

if TYPE_CHECKING:
    from decimal import Decimal
    from types import TracebackType

    from tacit.device.account import Account
    from tacit.device.answers import ListedItem, Recommendations
    from tacit.device.device import Device
    from tacit.device.exchange import Answer
    from tacit.device.ranking import PersonalRanking
    from tacit.privacy.policy import Policy
    from tacit.privacy.report import Report

COMPACT = "application/vnd.tacit.reports"
MOST_RECOMMENDED = 1000


class Client:
    """One device's connection to its provider.

    The ledger is what is to be sent: every report in it that the provider has not acknowledged. So nothing is lost
    when the network, the provider or this machine stops at any moment; at worst a report is sent again, unchanged,
    and the provider knows it.

    What the provider publishes is verified each time. Only `consent` makes the device obey a policy.
    """

    def __init__(  # noqa: PLR0913 - three that matter, and three about the network
        self,
        base_url: str,
        device: Device,
        token_file: str | Path,
        *,
        seconds: float = 30.0,
        authority: str | Path | None = None,
        plain_http: bool = False,
    ) -> None:
        """Prepare to speak to a provider; nothing is sent yet.

        Args:
            base_url: Where the provider is, such as https://example.org.
            device: Whose reports are sent, and whose ratings rank.
            token_file: Where the device's token at this provider is kept, beside the ledger; made when first needed.
            seconds: The time an answer may take, from the question to its last byte.
            authority: A file of certificates to trust instead of the system's.
            plain_http: Whether to go without encryption to another machine, which shows the token on the way.
        """
        from tacit.device.transport import Transport  # noqa: PLC0415 - a slow import

        self._transport = Transport(base_url, seconds=seconds, authority=authority, plain_http=plain_http)
        self._device = device
        self._file = Path(token_file)
        self._lock = threading.RLock()
        self._published = Published(self._ask)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the device stays open."""
        self._transport.close()

    def policy(self) -> Policy:
        """Fetch the provider's current policy and verify it; it is not obeyed by that."""
        with self._lock:
            return self._published.policy()

    def consent(self, expected: str | None = None) -> Policy:
        """Fetch and verify the current policy, and agree to report under it.

        Args:
            expected: The id of the policy that the person was shown; should there be another by now, it is refused.
        """
        policy = self.policy()
        if expected is not None and policy.id != expected:
            raise PolicyError(f"the provider now has policy {policy.id}, not {expected}; show the person that one")
        self._device.consent(policy)
        return policy

    def rate(self, item: str | int, rating: float | Decimal, *, change: bool = False) -> Report:
        """Say one rating: perturbed and charged on this device, and to be sent when `send` is next called."""
        with self._lock:
            account = self._account()  # first: an account that cannot be used must not cost anything
            report = self._device.rate(item, rating, change=change)
            if report.item in account.withdrawn:
                save_account(self._file, account.saying_again(report.item))
            return report

    def waiting(self) -> list[Report]:
        """Return the reports that the provider has not acknowledged, in order of item."""
        account = self._account()
        return [report for report in self._device.reports() if account.lacks(report)]

    def send(self) -> Sent:
        """Send what the provider has not acknowledged; what it does is noted on disk batch by batch."""
        with self._lock:
            total = Sent()
            by_policy = sorted(self.waiting(), key=lambda report: report.policy)  # stable: in order of item still
            for policy_id, group in groupby(by_policy, key=lambda report: report.policy):
                total = total.and_then(self._send_under(policy_id, list(group)))
            return total

    def rank_items(self) -> PersonalRanking:
        """Fetch the item model, unless it is known, and rank on this device; the ratings stay here."""
        with self._lock:
            return self._device.rank_items(self._published.item_model())

    def recommendations(self, n: int = 10) -> Recommendations:
        """Ask for the list that the provider makes from this device's reports; `rank_items` knows more."""
        if not 1 <= n <= MOST_RECOMMENDED:
            raise DeviceError(f"a list of {n} items cannot be asked for; ask for 1 to {MOST_RECOMMENDED}")
        with self._lock:
            request = Request("GET", "/v1/recommendations", query={"n": n}, token=self._token())
            return recommendations_of(self._ask(request))

    def items(self) -> list[ListedItem]:
        """Fetch the provider's catalogue."""
        with self._lock:
            return self._published.items()

    def stored(self) -> Stored:
        """Ask what the provider keeps about this device."""
        with self._lock:
            token = self._account().token
            nothing = Stored((), parse_canonical_decimal("0"))
            if token is None:
                return nothing
            try:
                return stored_of(self._ask(Request("GET", "/v1/devices/me", token=token, most=LARGEST_STORE)))
            except ProviderError as error:
                if error.code == "unknown-device":
                    return nothing
                raise

    def delete_everything(self) -> None:
        """Have everything deleted at the provider, then forget the token and withdraw the consent.

        The ledger stays, so that nothing is ever drawn twice and the cap still counts: a provider may have kept a
        copy. What is in it is not sent again unless the person rates it again.
        """
        with self._lock:
            account = self._account()
            if account.token is not None:
                self._ask(Request("DELETE", "/v1/devices/me", token=account.token))
            said = {entry["item"]: entry["revision"] for entry in self._device.export()["entries"]}
            save_account(self._file, account.withdrawing(said))
            self._device.withdraw()

    def _send_under(self, policy_id: str, reports: list[Report]) -> Sent:
        current = self._device.policy
        known = current is not None and current.id == policy_id
        policy = current if known else self._published.earlier_policy(policy_id)
        if policy is None:
            return Sent(unsendable=len(reports))
        total = Sent()
        for start in range(0, len(reports), MOST_REPORTS):
            try:
                total = total.and_then(self._send_batch(reports[start : start + MOST_REPORTS], policy))
            except ProviderError as error:
                if error.code != "unknown-policy":
                    raise
                return total.and_then(Sent(unsendable=len(reports) - start))
        return total

    def _send_batch(self, batch: list[Report], policy: Policy) -> Sent:
        headers, body = {"Content-Type": COMPACT}, encode_compact(batch, policy)
        answer = self._ask(Request("POST", "/v1/reports", headers=headers, body=body, token=self._token()))
        sent, kept = sent_of(answer, batch)
        save_account(self._file, self._account().acknowledging(kept))
        return sent

    def _account(self) -> Account:
        return load_account(self._file, self._transport.base_url)

    def _token(self) -> str:
        """Return the token, which is on disk before anybody else sees it."""
        account = self._account()
        known = account.with_token()
        if known is not account:
            save_account(self._file, known)
        return str(known.token)

    def _ask(self, request: Request) -> Answer:
        """Return an answer that is one, or has the other status that is looked for; a redirect leads nowhere."""
        answer = self._transport.ask(request)
        if answer.status not in {OK, NO_CONTENT, request.also}:
            raise problem_of(answer, request.token)
        return answer
