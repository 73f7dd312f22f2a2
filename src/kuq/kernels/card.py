"""Kernel cards: the facts of a kernel and which of the paper's propositions follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kuq._array import any_true, is_array


@dataclass(frozen=True)
class KernelCard:
    """Facts about a kernel; ``None`` as a degree means not homogeneous.

    A bounded kernel is never convex, so no kernel satisfies both Proposition 2 and 3.
    """

    name: str
    formula: str
    strictly_proper: bool = False
    bounded: bool = False
    translation_invariant: bool = False
    homogeneous_degree: float | None = None
    convex: bool = False

    def __getitem__(self, fact: str) -> object:
        return getattr(self, fact)

    @property
    def epistemic_zero_only_if_members_agree(self) -> bool:
        """Proposition 1, converse: EU = 0 implies that all members are equal."""
        return self.strictly_proper

    @property
    def aleatoric_grows_with_spread(self) -> bool:
        """Proposition 2: AU is monotone in the convex order."""
        return self.translation_invariant and self.convex

    @property
    def robust(self) -> bool:
        """Proposition 3: one member, however wrong, has bounded influence."""
        return self.bounded

    @staticmethod
    def of_sum(cards: Sequence[KernelCard]) -> KernelCard:
        degrees = {card.homogeneous_degree for card in cards}
        return KernelCard(
            name=" + ".join(card.name for card in cards),
            formula=" + ".join(card.formula for card in cards),
            strictly_proper=any(card.strictly_proper for card in cards),
            bounded=all(card.bounded for card in cards),
            translation_invariant=all(card.translation_invariant for card in cards),
            homogeneous_degree=degrees.pop() if len(degrees) == 1 else None,
            convex=all(card.convex for card in cards),
        )


#: What a table shows, with its headings.
_COLUMNS = {
    "name": "score",
    "formula": "k(x, y)",
    "strictly_proper": "strictly proper",
    "bounded": "bounded",
    "translation_invariant": "translation inv.",
    "homogeneous_degree": "degree",
    "convex": "convex",
    "epistemic_zero_only_if_members_agree": "Prop. 1 (EU=0 iff equal)",
    "aleatoric_grows_with_spread": "Prop. 2 (AU monotone)",
    "robust": "Prop. 3 (robust)",
}


class KernelCards(Sequence[KernelCard]):
    """Kernel cards in order; prints as a table, and ``records()`` gives plain dictionaries.

    Cards that answer a need have ``reasons``, one tuple of texts each, and print with them.
    """

    def __init__(
        self,
        cards: Sequence[KernelCard],
        reasons: Sequence[tuple[str, ...]] | None = None,
        otherwise: str = "",
    ) -> None:
        self._cards = tuple(cards)
        self.reasons = None if reasons is None else tuple(reasons)
        self._otherwise = otherwise

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._cards[index]

    def __len__(self) -> int:
        return len(self._cards)

    def __iter__(self) -> Iterator[KernelCard]:
        return iter(self._cards)

    def records(self) -> list[dict[str, object]]:
        return [{column: getattr(card, column) for column in _COLUMNS} for card in self._cards]

    def __repr__(self) -> str:
        return self._table() if self.reasons is None else self._answer(self.reasons)

    def _answer(self, reasons: tuple[tuple[str, ...], ...]) -> str:
        """One score after the other, with the reasons why it fits."""
        if not self._cards:
            return self._otherwise
        width = max(len(card.name) for card in self._cards)
        lines = []
        for card, why in zip(self._cards, reasons, strict=True):
            lines.append(f"{card.name.ljust(width)}  {why[0]}")
            lines.extend(f"{'':<{width}}  {reason}" for reason in why[1:])
        return "\n".join(lines)

    def _table(self) -> str:
        rows = [[*_COLUMNS.values()], *([_cell(v) for v in r.values()] for r in self.records())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def all_positive(weights: Any) -> bool:
    """Whether event weights see every coordinate."""
    if weights is None:
        return True
    return not any_true((weights if is_array(weights) else np.asarray(weights)) <= 0)
