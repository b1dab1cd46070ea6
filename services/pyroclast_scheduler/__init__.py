"""The scheduler.

The scheduler uses no linear algebra, for which numpy would start one thread per CPU.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
