"""Answers for an agent over the Model Context Protocol: read-only, small, with ids and the next call.

    tool.py    the tools as a table: name, words, arguments, function
    desk.py    what they share: roots, reports at hand
    answer.py  what a report is in a few hundred tokens
    query.py   rows of the report's tables
    serve.py   the SDK: stdin and stdout

Nothing here writes a file, opens a socket or runs a program, and no answer holds an event of a trace.
"""
