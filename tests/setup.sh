#!/bin/sh
# Brings what the end-to-end tests use and the machine may not have: the kubectl of Debian's kubernetes-client (1.20),
# unpacked beside the build, not installed. Other versions are used where they lie; a machine without apt has its own.
set -eu

tools="${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/test-tools"
client="$tools/kubernetes-client"

if [ -x "$client/usr/bin/kubectl" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no apt-get here: the tests use the kubectl on the PATH" >&2
    command -v kubectl >/dev/null
    exit
fi

unpacked="$(mktemp -d)"
trap 'rm -rf "$unpacked"' EXIT
cd "$unpacked"
if ! apt-get download -qq kubernetes-client 2>/dev/null; then
    # A fresh machine has no package lists yet.
    apt-get update -qq
    apt-get download -qq kubernetes-client
fi
dpkg-deb -x kubernetes-client_*.deb client
cd - >/dev/null
mkdir -p "$tools"
rm -rf "$client"
mv "$unpacked/client" "$client"
"$client/usr/bin/kubectl" version --client --short
