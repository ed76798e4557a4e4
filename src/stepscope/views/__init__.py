"""Renderers: terminal, JSON, Markdown, HTML. They decide nothing and compute nothing beyond formatting."""
