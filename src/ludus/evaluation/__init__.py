"""Playing with a finished policy: evaluation, videos, a window, and policies by name."""
