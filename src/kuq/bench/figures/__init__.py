"""The paper's figures, drawn from records, fields and kuq itself as inline SVG."""

from kuq.bench.figures.drawing import Figure, Panel
from kuq.bench.figures.gallery import all_figures

__all__ = ["Figure", "Panel", "all_figures"]
