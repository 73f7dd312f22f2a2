"""Reports: self-contained pages that explain numbers in plain language."""
