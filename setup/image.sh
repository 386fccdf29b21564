#!/bin/bash
# image.sh WHEEL DIST [ARCHITECTURE]: makes the container image of the wheel, as an OCI archive in
# DIST and in podman's own store as localhost/kernel-delay, and its bill of materials beside it.
#
# The same wheel and the same packages of Debian 12 make the same digest, wherever and whenever:
# all times in it are SOURCE_DATE_EPOCH, which is the newest commit's if not given. ARCHITECTURE,
# amd64 or arm64, is this machine's if not given; nothing of another one is run here.
set -euo pipefail
wheel=$(readlink -e "$1") dist=$(readlink -m "$2") architecture=${3:-$(dpkg --print-architecture)}
cd "$(dirname "$(readlink -f "$0")")/.."

say() { echo "image: $*" >&2; }

((EUID == 0)) || { say 'it takes root to unpack what root will own'; exit 77; }
case $architecture in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) say "there is no image for $architecture: say amd64 or arm64"; exit 64 ;;
esac
[[ $wheel == *_"$machine".whl ]] || { say "$wheel is not for $machine"; exit 65; }
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
	SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct)
fi
export SOURCE_DATE_EPOCH
version=$(basename "$wheel" | cut -d- -f2)
archive=$dist/kernel-delay-$version-$architecture.oci.tar
# A tag of an image has no `+`.
tag=${version/+/-}

# Python of Debian 12, and what dpkg brings along by dependencies alone; no shell.
packages=python3.11-minimal,libpython3.11-stdlib
unneeded=(dpkg tar libacl1 libmd0 libpcre2-8-0 libselinux1)

unpack_base() {
	say "unpacking Python of Debian 12 for $architecture"
	local mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
		'Origin: Debian' 'Label: Debian' | sed -n 1p)
	mkdir "$work/packages"
	mmdebstrap --quiet --variant=extract --architectures="$architecture" --include="$packages" \
		--aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
		--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
		--setup-hook='for folder in bin sbin lib lib64; do
			mkdir -p "$1/usr/$folder" && ln -s "usr/$folder" "$1/$folder"; done' \
		--extract-hook="cp \"\$1\"/var/cache/apt/archives/*.deb '$work/packages'" \
		bookworm "$base" ${mirror:+"$mirror"}
	for package in "${unneeded[@]}"; do
		for file in "$work/packages/$package"_*.deb; do
			dpkg-deb --fsys-tarfile "$file" | tar -t | grep -v '/$' |
				(cd "$base" && xargs -d '\n' rm -f)
			rm "$file"
		done
	done
	# Of the documentation licences remain.
	find "$base/usr/share/doc" -type f ! -name copyright -delete
	(cd "$base" && rm -rf etc/apt var usr/{games,include,lib32,libx32,src} lib32 libx32 \
		usr/share/{bug,info,lintian,locale,man,menu,readline} dev/*)
	(cd "$base/usr/lib/python3.11" && rm -rf ensurepip idlelib lib2to3 pydoc_data test turtledemo)
	ln -s python3.11 "$base/usr/bin/python3"
	mkdir -p "$base"/{proc,sys,run,tmp,var/tmp,root,etc}
	# For libraries that ask who they are, and for certificates' hosts.
	echo 'root:x:0:0:root:/root:/usr/sbin/nologin' >"$base/etc/passwd"
	echo 'root:x:0:' >"$base/etc/group"
	find "$base" -type d -empty ! -path "$base/proc" ! -path "$base/sys" ! -path "$base/dev" \
		! -path "$base/run" ! -path "$base/tmp" ! -path "$base/var/tmp" ! -path "$base/root" -delete
}

install_wheel() {
	say "installing $(basename "$wheel")"
	local target=$application/usr/local/lib/python3.11/dist-packages platforms=()
	for glibc in 34 28 17 5; do platforms+=(--platform "manylinux_2_${glibc}_$machine"); done
	.venv/bin/pip install --quiet --no-compile --target "$target" --python-version 3.11 \
		--only-binary :all: "${platforms[@]}" "$wheel[metrics]"
	mkdir -p "$application/usr/local/bin"
	mv "$target/bin/kernel-delay" "$application/usr/local/bin/"
	# Others' commands, and what shells and `man` read: none of these is there.
	rm -rf "$target/bin" "$target/share"
	# pip says here what it was asked for, which is a path of this machine.
	find "$target" -name direct_url.json -delete
}

# Compiled beforehand, as nothing can be written to later. The code is of Python 3.11: this
# machine's own compiles it, or the image's if it runs here, else each start does.
compile() {
	local python=(.venv/bin/python) of
	of=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	if [[ $of != 3.11 ]]; then
		[[ $architecture == "$(dpkg --print-architecture)" ]] || return 0
		python=("$base"/lib*/ld-linux-*.so.* --library-path "$base/usr/lib/$machine-linux-gnu"
			env PYTHONHOME="$base/usr" "$base/usr/bin/python3.11")
	fi
	for root in "$base" "$application"; do
		PYTHONHASHSEED=0 "${python[@]}" -m compileall -q -j 1 -s "$root" -p / \
			--invalidation-mode unchecked-hash "$root/usr" >&2
	done
}

settle() {
	for root in "$base" "$application"; do
		chown -R 0:0 "$root"
		find "$root" ! -type l -exec chmod a-w,a+rX {} +
		find "$root" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
	done
}

commit() {
	say "making $archive"
	buildah build --quiet --layers=false --timestamp "$SOURCE_DATE_EPOCH" \
		--arch "$architecture" --os linux --identity-label=false \
		--label org.opencontainers.image.title=kernel-delay \
		--label org.opencontainers.image.version="$version" \
		--label org.opencontainers.image.description='Is the kernel to blame? Measures what the kernel did to a slow process, thread by thread.' \
		--label org.opencontainers.image.licenses=Apache-2.0 \
		--label org.opencontainers.image.created="$(date --utc --date "@$SOURCE_DATE_EPOCH" +%FT%TZ)" \
		--label org.opencontainers.image.revision="$(git -c safe.directory="$PWD" rev-parse HEAD)" \
		--tag "localhost/kernel-delay:$tag-$architecture" \
		--file setup/image/Containerfile "$work/context" >/dev/null
	rm -f "$archive"
	buildah push --quiet --format oci "localhost/kernel-delay:$tag-$architecture" \
		"oci-archive:$archive:kernel-delay:$tag"
	if [[ $architecture == "$(dpkg --print-architecture)" ]]; then
		buildah tag "localhost/kernel-delay:$tag-$architecture" localhost/kernel-delay:latest
	fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
base=$work/context/base application=$work/context/application
mkdir -p "$base" "$application" "$dist"
unpack_base
install_wheel
.venv/bin/python setup/bill_of_materials.py "$application/usr/local/lib/python3.11/dist-packages" \
	"$version" "$work/packages" >"$work/sbom.cdx.json"
compile
install -D "$work/sbom.cdx.json" "$application/usr/share/doc/kernel-delay/sbom.cdx.json"
settle
commit
cp "$work/sbom.cdx.json" "${archive%.oci.tar}.cdx.json"
say "$(tar -xOf "$archive" index.json | sed 's/.*"digest":"\([^"]*\)".*/\1/') $(stat -c %s "$archive") bytes"
