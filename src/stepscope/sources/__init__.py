"""All that yields samples, steps, events and memory.

`formats/` turns bytes into records, `catalog/` records into rows of the model, one file a source.
"""
