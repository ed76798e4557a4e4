"""One file a cause, named after it, holding `RULE`. Being here is being in the catalogue."""
