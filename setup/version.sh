#!/bin/sh
# Prints the version: that of the newest git tag vN.N.N, and of commits after it
# N.N.N.postCOUNT+gCOMMIT. Without any tag it is the first one's, and in what
# `meson dist` packed, which calls this with --pack, what it was when it was packed.
set -eu
first=0.1.0
root=$(cd "$(dirname "$0")/.." && pwd -P)

described() {
	# Only of this tree's own repository, whoever its owner is: make runs as root.
	[ -e "$root/.git" ] || return 1
	git -C "$root" -c safe.directory="$root" describe --tags --long --match 'v[0-9]*' 2>/dev/null
}

if [ "${1-}" = --pack ]; then
	version=$("$0")
	echo "$version" >"$MESON_DIST_ROOT/.version"
elif [ -e "$root/.version" ]; then
	cat "$root/.version"
elif tag=$(described); then
	echo "$tag" | sed -E 's/^v//; s/-0-g[0-9a-f]+$//; s/-([0-9]+)-(g[0-9a-f]+)$/.post\1+\2/'
else
	echo $first
fi
