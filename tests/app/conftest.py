"""The clock on the screen shows UTC, wherever the tests run."""

import os
import time

os.environ["TZ"] = "UTC"
time.tzset()
