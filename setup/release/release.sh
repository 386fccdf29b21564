#!/bin/bash
# release.sh DIST URL ARCHITECTURE...: what a release has, of the newest commit, into DIST, which it
# empties: sdist, and for each architecture (amd64, arm64) wheel, deb, rpm and bill of materials;
# the plugin for kubectl, the chart, the notes, and the sums of all. URL is the project's, or empty.
#
# It is built in a clone, so that neither what is not committed nor URL is in anybody's tree.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
dist=$(readlink -m "$1") url=$2
shift 2

say() { echo "release: $*" >&2; }
repository() { git -c safe.directory="$PWD" "$@"; }

tree=$PWD/build/release
rm -rf "$tree" "$dist"
mkdir -p "$dist" build
git -c safe.directory='*' clone --quiet "$PWD" "$tree"
SOURCE_DATE_EPOCH=$(repository log -1 --format=%ct)
export SOURCE_DATE_EPOCH
version=$("$tree/setup/version.sh")
say "$version, $(repository log -1 --format='commit %h')"
.venv/bin/python setup/release/notes.py "$version" "$tree/CHANGELOG.md" >"$dist/NOTES.md"
# Of the clone's commit, whatever is committed there now.
echo "$version" >"$tree/.version"
if [[ $url ]]; then
	.venv/bin/python setup/release/published.py "$tree" "$url" "$version"
	author=$(repository log -1 --format=%cn) address=$(repository log -1 --format=%ce)
	git -C "$tree" -c user.name="$author" -c user.email="$address" commit --quiet --all \
		--message "What is published says where the project is"
fi
ln -s "$PWD/.venv" "$tree/.venv"

say sdist
"$tree/.venv/bin/python" -m build --sdist --no-isolation --outdir "$dist" "$tree" >"$tree/../sdist.log" 2>&1 ||
	{ cat "$tree/../sdist.log" >&2; exit 70; }
for architecture; do
	say "$architecture"
	"$tree/setup/wheel.sh" "$dist" "$architecture"
	case $architecture in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac
	"$tree/setup/release/packages.sh" "$dist"/*_"$machine".whl "$dist" "$url"
done

say 'plugin for kubectl, chart for Helm'
"$tree/setup/release/krew.sh" "$dist" "$url" "$version"
# Helm asks for semver.org's form: 0.1.0-dev5, not 0.1.0.dev5.
.venv/bin/helm package "$tree/deploy/kubernetes/helm/kernel-delay" --destination "$dist" \
	--version "${version/.dev/-dev}" --app-version "$version" >"$tree/../chart.log" 2>&1 ||
	{ cat "$tree/../chart.log" >&2; exit 70; }

say 'checks: twine, lintian, rpmlint'
.venv/bin/twine check --strict "$dist"/*.whl "$dist"/*.tar.gz >&2
lintian --fail-on error,warning --allow-root "$dist"/*.deb >&2
rpmlint --config setup/release/rpmlint.toml "$dist"/*.rpm >&2
(cd "$dist" && find . -maxdepth 1 -type f ! -name NOTES.md ! -name SHA256SUMS -printf '%P\n' |
	LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)
rm -rf "$tree"
say "$dist has $(wc -l <"$dist/SHA256SUMS") files"
