#!/bin/bash
# packages.sh WHEEL DIST [URL]: a deb and an rpm of the wheel, into DIST, and what is in them as
# CycloneDX. URL is the project's.
#
# Each has the libraries of Python that the wheel needs, for the Pythons of Debian 12 (3.11) and of
# those after it: one package serves them all. The same wheel, libraries and SOURCE_DATE_EPOCH, which
# is the newest commit's if not given, make the same bytes.
set -euo pipefail
wheel=$(readlink -e "$1") dist=$(readlink -m "$2") url=${3:-}
cd "$(dirname "$(readlink -f "$0")")/../.."
pythons=(3.11 3.12 3.13 3.14)

say() { echo "packages: $*" >&2; }

case $wheel in
*x86_64.whl) machine=x86_64 architecture=amd64 ;;
*aarch64.whl) machine=aarch64 architecture=arm64 ;;
*) say "$wheel is for neither x86-64 nor arm64"; exit 65 ;;
esac
repository() { git -c safe.directory="$PWD" "$@"; }
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(repository log -1 --format=%ct)}
version=$(basename "$wheel" | cut -d- -f2)
native=$(setup/release/native-version.sh "$version")

make_deb() {
	say "kernel-delay_$native-1_$architecture.deb"
	local source=$work/deb/kernel-delay
	mkdir -p "$source"
	cp -a setup/release/debian "$source/debian"
	cp CHANGELOG.md "$source"
	local maintainer
	maintainer=$(repository log -1 --format='%cn <%ce>')
	sed -i "s|@MAINTAINER@|$maintainer|${url:+; /^Standards-Version/i Homepage: $url}" "$source/debian/control"
	sed -i "${url:+/^Upstream-Name/a Source: $url}" "$source/debian/copyright"
	cat >"$source/debian/changelog" <<END
kernel-delay ($native-1) unstable; urgency=medium

  * What changed is in /usr/share/doc/kernel-delay/changelog.gz.

 -- $maintainer  $(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
END
	(cd "$source" && TREE=$tree dpkg-buildpackage --build=binary --unsigned-changes --no-check-builddeps \
		--host-arch="$architecture" >"$work/deb.log" 2>&1) || { cat "$work/deb.log" >&2; exit 70; }
	cp "$work/deb/kernel-delay_$native-1_$architecture.deb" "$dist"
}

make_rpm() {
	say "kernel-delay-$native-1.$machine.rpm"
	local bundled
	bundled=$(.venv/bin/python -m pip list --path "$site" --format freeze --exclude kernel-delay |
		sed -E 's/(.*)==(.*)/Provides: bundled(python3dist(\L\1\E)) = \2/')
	rpmbuild -bb --quiet --target "$machine-linux" --define "_topdir $work/rpm" --define "tree $tree" \
		--define "release_version $native" --define "bundled $bundled" --define "changes $PWD/CHANGELOG.md" \
		--define "licence $PWD/LICENSE" ${url:+--define "project_url $url"} \
		--define '_buildhost localhost' --define 'clamp_mtime_to_source_date_epoch 1' \
		--define '_binary_payload w19.zstdio' --define 'use_source_date_epoch_as_buildtime 1' --define '_rpmdir %{_topdir}' \
		setup/release/kernel-delay.spec >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log" >&2; exit 70; }
	cp "$work/rpm/$machine/"*.rpm "$dist"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree site=$work/tree/usr/lib/kernel-delay/lib/python3/site-packages
mkdir -p "$dist"
setup/install.sh "$wheel" "$tree" /usr /usr/bin/python3 "${pythons[@]}"
find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
make_deb
make_rpm
.venv/bin/python setup/bill_of_materials.py "$site" "$version" \
	>"$dist/kernel-delay-$version-$architecture.cdx.json"
