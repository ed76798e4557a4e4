"""The server: takes what agents ship, keeps it, notices, asks for captures, diagnoses and tells."""
