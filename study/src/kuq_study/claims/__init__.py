"""The claims ledger: each statement of the paper with a test that can fail."""

from kuq_study.claims.claim import Calculus, Case, Claim, Status, Verdict
from kuq_study.claims.ledger import LEDGER, Judgement, judge

__all__ = ["LEDGER", "Calculus", "Case", "Claim", "Judgement", "Status", "Verdict", "judge"]
