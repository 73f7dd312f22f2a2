"""Compiled twins of the loops in which NumPy spends its time on exp, erf and log.

Only ``kuq._compiled`` imports these modules, since importing numba takes half a second. Arrays are
float64. A public function of a module prepares arrays and cuts the work; what is compiled is
private. Compiled code is kept between processes, see ``stored_code.py``.
"""
