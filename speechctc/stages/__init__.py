"""The stages of the command line, a module for each."""
