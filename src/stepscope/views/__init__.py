"""Renderers: terminal, JSON, Markdown. They decide nothing and compute nothing beyond formatting."""
