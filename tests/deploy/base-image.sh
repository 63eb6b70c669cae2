#!/bin/sh
# Makes the image that tests build on where no image registry is at hand: the Debian of python:3.13-slim with the Python
# of that Debian. usage: base-image.sh NAME
set -eu

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
# `python` is found where python:3.13-slim has it.
mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3-venv \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt='Acquire::Languages "none"' \
    --customize-hook='ln -s /usr/bin/python3.13 "$1/usr/local/bin/python"' \
    trixie "$tree/root.tar"
container=$(buildah from scratch)
buildah add --quiet "$container" "$tree/root.tar" / >/dev/null
buildah config --env PATH=/usr/local/bin:/usr/bin:/bin --env LANG=C.UTF-8 --cmd python "$container"
buildah commit --quiet --rm "$container" "$1"
