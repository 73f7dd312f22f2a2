"""Names of data sets, representations and scores: their order, and how tables call them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from kuq_study.latex import latex_text


@final
@dataclass(frozen=True)
class Name:
    """What a key of the records is called in text and in LaTeX."""

    text: str
    latex: str


@final
@dataclass(frozen=True)
class DataName:
    """A data set: its name, the kind of task, and the data of the paper that it stands beside."""

    text: str
    task: str
    paper: str
    synthetic: bool = False


UNIVARIATE, FUNCTIONS, IMAGES, OTHER = "univariate", "1D", "2D", "other"

DATASETS = {
    "burgers": DataName("Burgers'", FUNCTIONS, "burgers"),
    "kuramoto-sivashinsky": DataName("Kuramoto-Sivashinsky", FUNCTIONS, "kuramoto-sivashinsky"),
    "depth": DataName("Depth", IMAGES, "depth"),
    "depth-synthetic": DataName("Depth (synthetic stand-in)", IMAGES, "depth", True),
    "temperature": DataName("Temperature", IMAGES, "temperature"),
    "reanalysis": DataName("Temperature (NCEP-NCAR)", IMAGES, "temperature"),
    "concrete": DataName("Concrete", UNIVARIATE, "concrete"),
    "energy": DataName("Energy", UNIVARIATE, "energy"),
    "kin8nm": DataName("Kin8nm", UNIVARIATE, "kin8nm"),
    "naval-propulsion-plant": DataName("Naval", UNIVARIATE, "naval-propulsion-plant"),
    "power-plant": DataName("Power", UNIVARIATE, "power-plant"),
    "protein-tertiary-structure": DataName("Protein", UNIVARIATE, "protein-tertiary-structure"),
    "yacht": DataName("Yacht", UNIVARIATE, "yacht"),
}
REPRESENTATIONS = {
    "normal": Name("NG", "NG"),
    "evidential": Name("DER", "DER"),
    "mixture": Name("MDN", "MDN"),
    "low-rank": Name("LoRa", "LoRa"),
    "sampler": Name("SB", "SB"),
    "flow": Name("FM (ours)", "FM (ours)"),
}
#: Representations beside the paper's: its claims and ranks are not about them.
OURS = ("flow",)
SCORES = {
    "log": Name("log", r"$S_\mathrm{log}$"),
    "squared": Name("SE", r"$S_\mathrm{SE}$"),
    "crps": Name("CRPS", r"$S_\mathrm{CRPS}$"),
    "energy": Name("ES", r"$S_\mathrm{ES}$"),
    "gaussian": Name("Gaussian", r"$S_{k_\gamma}$"),
}
RANDOM = {"random": Name("random", r"$\mathcal{U}$")}
COMPONENTS = {
    "aleatoric": Name("Aleatoric", "Aleatoric"),
    "epistemic": Name("Epistemic", "Epistemic"),
}


def ordered(occurring: Iterable[str], order: Iterable[str]) -> list[str]:
    """Keys that occur, those of the paper first and in its order, a user's own after them.

    >>> ordered({"mine", "log", "crps"}, SCORES)
    ['log', 'crps', 'mine']
    """
    keys = set(occurring)
    listed = list(order)
    return [key for key in listed if key in keys] + sorted(keys - set(listed))


def data_name(dataset: str) -> DataName:
    """The name of a data set; a user's own keeps its key and has no twin in the paper."""
    return DATASETS.get(dataset) or DataName(
        dataset, OTHER, "", synthetic=dataset.endswith("-synthetic")
    )


def name_of(key: str, names: dict[str, Name]) -> Name:
    """The name of a representation or score; a user's own is called by its key."""
    return names.get(key) or Name(key, latex_text(key))
