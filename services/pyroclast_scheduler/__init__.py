"""The scheduler.

It has no use for linear algebra, for which numpy would start a thread for each CPU.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
