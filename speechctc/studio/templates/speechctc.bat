@echo off
rem Runs speechctc for ELAN.
set PYTHONUTF8=1
"@PYTHON@" @MODULE@ speechctc.studio.plugins elan
