#!/bin/bash
# Second half of `make demo`, after everything is installed and demo-job/ is written.
set -eu -o pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
report=demo-job/report.html

echo "running notebooks/quickstart.ipynb …"
$bin/python scripts/run_notebook.py notebooks/quickstart.ipynb
$bin/hta-widgets report demo-job -o "$report"

cat <<END

  trace files   demo-job/
  report        file://$PWD/$report   (one file, works without a network)
  notebook      make lab
END

if [ -t 0 ] && [ -t 1 ] && [ -z "${CI:-}" ]; then
  read -r -p "Start JupyterLab on loopback now? [y/N] " answer
  case "$answer" in
    [yY]*) exec $bin/jupyter lab --ip=127.0.0.1 notebooks/quickstart.ipynb ;;
  esac
fi
