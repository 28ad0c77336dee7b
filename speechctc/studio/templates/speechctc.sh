# Runs speechctc for ELAN, which gives its processes few variables and the plainest locale.
export PYTHONUTF8=1
export PATH="$PATH:/usr/local/bin:/opt/homebrew/bin"
exec '@PYTHON@' @MODULE@ speechctc.studio.plugins elan
