from __future__ import annotations

collect_ignore = ["compiling_kernels.py"]  # a program: it needs what is not everywhere, and Triton as it is
