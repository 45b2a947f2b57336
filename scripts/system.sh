#!/bin/bash
# Check for system requirements. Missing packages are installed with apt if the user is root;
# otherwise, an error names them. `system.sh python` prints the interpreter to use; `node` and
# `browser` print nothing.
set -eu -o pipefail

fail() {
  echo "$*" >&2
  exit 1
}

updated=
apt_install() {
  local why=$1
  shift
  if [ "$EUID" != 0 ] || ! command -v apt-get >/dev/null; then
    fail "$why. Install it, on Debian with: apt-get install --no-install-recommends $*"
  fi
  echo "$why: installing $* …" >&2
  export DEBIAN_FRONTEND=noninteractive
  if [ -z "$updated" ]; then
    apt-get update -qq >&2
    updated=1
  fi
  apt-get install -y -qq --no-install-recommends "$@" >&2
}

# --- Python ≥ 3.11 with venv ---

python_fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python_has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if command -v "$name" >/dev/null && python_fits "$name"; then
      echo "$name"
      return
    fi
  done
}

need_python() {
  local python
  python=$(find_python)
  if [ -z "$python" ]; then
    apt_install "No Python 3.11 or newer" python3 python3-venv
    python=$(find_python)
    [ -n "$python" ] || fail "The system's Python is older than 3.11; set PYTHON to a newer one."
  fi
  if ! python_has_venv "$python"; then
    apt_install "$python has no venv module" python3-venv
    python_has_venv "$python" || fail "$python still has no venv module; set PYTHON to another."
  fi
  echo "$python"
}

# --- Node ≥ 20.19 with npm ---

node_fits() {
  command -v node >/dev/null && command -v npm >/dev/null &&
    node -e 'const [a, b] = process.versions.node.split(".").map(Number);
      process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

need_node() {
  node_fits && return
  local offered=
  if command -v apt-cache >/dev/null; then
    [ "$EUID" != 0 ] || { apt-get update -qq >&2 && updated=1; }
    offered=$(apt-cache policy nodejs | awk '/Candidate:/ { print $2 }')
  fi
  if command -v dpkg >/dev/null && [ -n "$offered" ] && dpkg --compare-versions "$offered" ge 20.19; then
    apt_install "No Node 20.19 or newer with npm" nodejs npm
  fi
  node_fits || fail "Node 20.19 or newer with npm is needed to build the front end, and apt offers" \
    "${offered:-none}. Install one from Node's own downloads and put it on PATH."
}

# --- Chromium and a font of known widths ---

# Optional: the headless shell opens pages in a third of chromium's processor time. Only downloads
# have a time limit, because a partly installed package blocks apt.
offer_shell() {
  local name=chromium-headless-shell
  [ -z "${HTA_CHROMIUM:-}" ] && [ "$EUID" = 0 ] && command -v apt-get >/dev/null || return 0
  [ ! -x /usr/bin/$name ] || return 0
  local fetch=(timeout 90 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10)
  local install=(install -y --no-install-recommends)
  echo "installing $name for faster browser tests …" >&2
  export DEBIAN_FRONTEND=noninteractive
  {
    apt-cache show $name >/dev/null 2>&1 || "${fetch[@]}" update
  } >&2 && "${fetch[@]}" "${install[@]}" --download-only $name >&2 &&
    apt-get -qq "${install[@]}" --no-download $name >&2 || echo "(not installed; tests will use chromium)" >&2
}

need_browser() {
  offer_shell
  local chromium=${HTA_CHROMIUM:-/usr/bin/chromium}
  local missing=()
  [ -x "$chromium" ] || missing+=(chromium)
  [ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing+=(fonts-dejavu-core)
  # Playwright's Node needs this library, which minimal Debian systems lack.
  compgen -G '/usr/lib/*/libatomic.so.1' >/dev/null || missing+=(libatomic1)
  [ ${#missing[@]} = 0 ] || apt_install "Browser tests need ${missing[*]}" "${missing[@]}"
  [ -x "$chromium" ] || fail "No browser at $chromium: set HTA_CHROMIUM."
}

case "${1:-}" in
  python) need_python ;;
  node) need_node ;;
  browser) need_browser ;;
  *) fail "usage: system.sh python|node|browser" ;;
esac
