"""What compiled code is made with: how it is compiled, kept, and its elementary functions.

The loops in which NumPy spends its time on exp, erf and log have twins beside the array code, in
files that end in ``_compiled``. Only ``kuq._compiled`` imports these, since importing numba takes
half a second. Arrays are float64. A public function of a twin prepares arrays and cuts the work;
what is compiled is private, and kept between processes, see ``stored_code.py``. It has no
annotations: numba finds its types from the signature of the kernel.
"""
