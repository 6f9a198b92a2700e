"""Perl's Redis::JobQueue in Python, on the same Redis keys."""

from redis_jobqueue._version import __version__

__all__ = ["__version__"]
