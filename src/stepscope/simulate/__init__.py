"""A training cluster that is not there. Imports the model only, so that it cannot mark its own homework."""
