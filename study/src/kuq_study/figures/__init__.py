"""The paper's figures, drawn from records, fields and kuq itself as inline SVG."""

from kuq_study.figures.drawing import Figure, Panel
from kuq_study.figures.gallery import all_figures

__all__ = ["Figure", "Panel", "all_figures"]
