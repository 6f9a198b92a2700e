"""Packaging entry point; everything it knows is in setup.cfg."""

from setuptools import setup

setup()
