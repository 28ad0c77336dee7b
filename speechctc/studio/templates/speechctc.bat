@echo off
rem Runs speechctc for ELAN.
set PYTHONUTF8=1
"@PYTHON@" -m speechctc.studio.elan
