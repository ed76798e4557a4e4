"""What needs a trace's columns a second time, after its report: files for viewers and other programs.

Identities are replaced under a key that follows from all inputs, and findings are known when all inputs were
read. So traces are read again, one after another, rather than kept: memory follows the largest file here too.
"""
