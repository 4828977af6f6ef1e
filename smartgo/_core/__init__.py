"""The compiled core: C that knows nothing of Python, and the Cython modules that call it. Absent without a compiler."""
