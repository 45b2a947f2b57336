#!/bin/bash
# Install code-server from npm into a folder and build its native modules, which requires a C++
# compiler and Node's headers. The official installer does not run as root and needs other sources.
set -eu -o pipefail
folder=$1
version=4.100.3 # the last version for Node 20
mkdir -p "$folder"
cd "$folder"
[ -f package.json ] || npm init -y >/dev/null
npm install --ignore-scripts --loglevel=error "code-server@$version"
gyp=$(dirname "$(readlink -f "$(command -v npm)")")/../node_modules/node-gyp/bin/node-gyp.js
build() { node "$gyp" rebuild --nodedir=/usr "$@" >/dev/null; }
cd node_modules/code-server/lib/vscode
npm install --omit=dev --ignore-scripts --loglevel=error
ln -sfn node_modules node_modules.asar
for module in native-watchdog @vscode/spdlog node-pty @parcel/watcher; do
  (cd "node_modules/$module" && build)
done
cd ../../../argon2
build --napi_version=3 --napi_build_version=3 --module_name=argon2 \
  --module_path="$PWD/lib/binding/napi-v3"
