"""The demonstrations behind ``kuq demo``: a curve with a gap in its data, and 442 patients."""
