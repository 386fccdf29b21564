#!/bin/sh
# Prints the version, in the form of PEP 440.
#   of a tag vN.N.N:          N.N.N
#   of a commit after it:     N.N.N.postCOUNT+gCOMMIT
#   of a commit before any:   0.1.0.devCOUNT+gCOMMIT
#   of changed files:         the same, always with +gCOMMIT, and .dirty behind it
# A tree without git has it in a file: `meson dist` calls this with --pack, which writes .version,
# and `git archive` fills in setup/archived-commit.txt (.gitattributes).
set -eu
first=0.1.0
root=$(cd "$(dirname "$0")/.." && pwd -P)

# Only of this tree's own repository, whoever its owner is: make runs as root, and leaves the
# index alone.
repository() {
	[ -e "$root/.git" ] || return 1
	GIT_OPTIONAL_LOCKS=0 git -C "$root" -c safe.directory="$root" "$@" 2>/dev/null
}

# From what `git describe` prints: vN.N.N, vN.N.N-COUNT-gCOMMIT, or COMMIT where there is no tag;
# each perhaps with -dirty. $2: how many commits there are.
as_version() {
	case $1 in
	v*) echo "$1" | sed -E 's/^v//; s/-0-g[0-9a-f]+$//; s/-([0-9]+)-(g.*)/.post\1+\2/; s/-dirty$/.dirty/' ;;
	*) echo "$first.dev$2+g$1" | sed 's/-dirty$/.dirty/' ;;
	esac
}

if [ "${1-}" = --pack ]; then
	version=$("$0")
	echo "$version" >"$MESON_DIST_ROOT/.version"
elif [ -e "$root/.version" ]; then
	cat "$root/.version"
elif described=$(repository describe --tags --long --always --dirty --match 'v[0-9]*'); then
	as_version "$described" "$(repository rev-list --count HEAD)"
elif read -r commit tag <"$root/setup/archived-commit.txt" && [ "${commit%%:*}" != '$Format' ]; then
	as_version "${tag:-$commit}" 0
else
	echo "$first.dev0"
fi
