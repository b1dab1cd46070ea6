"""Distributions, images and the chart: installed, upgraded, taken away."""
