"""What `speechctc doctor` checks: the machine, the corpus, its labels and its sound."""
