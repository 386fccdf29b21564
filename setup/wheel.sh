#!/bin/bash
# wheel.sh DIST: builds the wheel into DIST, with the libraries it needs inside.
#
# It runs wherever glibc is as new as RHEL 9's, 2.34, or newer. The libraries come from the
# machine it is built on, and ask for the glibc of that machine's release: Debian 12's get by
# with 2.34, newer ones' don't. So on any other machine it is built in a root of Debian 12.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
dist=$(readlink -m "$1")
platform=manylinux_2_34_$(uname -m)

say() { echo "wheel: $*" >&2; }

is_debian_12() {
	[[ $(. /etc/os-release && echo "$ID $VERSION_ID") == 'debian 12' ]]
}

build_here() {
	say building
	rm -rf build/wheel
	.venv/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheel \
		--config-settings=build-dir=build/python .
	.venv/bin/auditwheel repair --plat "$platform" --only-plat --wheel-dir "$dist" build/wheel/*.whl
}

# The packages to build with, for the Python of Debian 12, by this machine's pip: in the root
# there is neither its configuration nor, perhaps, a network.
fetch_python_packages() {
	.venv/bin/python setup/python_packages.py >"$1/requirements.txt"
	.venv/bin/python setup/python_packages.py wheel >>"$1/requirements.txt"
	.venv/bin/pip download --quiet --dest "$1" --python-version 3.11 --only-binary :all: \
		--platform "$platform" --platform "manylinux_2_28_$(uname -m)" \
		--platform "manylinux_2_17_$(uname -m)" --platform "manylinux_2_5_$(uname -m)" \
		--requirement "$1/requirements.txt"
}

# A root with what the build needs, unpacked once.
make_root() {
	[[ -e $1/.complete ]] && return
	say "unpacking Debian 12 into $1"
	rm -rf "$1"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
		'Origin: Debian' 'Label: Debian' | sed -n 1p)
	packages=$(sed -n "s/^\([^# ]*\)\( \[$(uname -m)\]\)\?\$/\1/p" setup/packages-build.txt |
		grep . | paste -sd,)
	mmdebstrap --quiet --variant=essential --include="$packages" \
		--aptopt='APT::Install-Recommends "false"' bookworm "$1" ${mirror:+"$mirror"}
	touch "$1/.complete"
}

build_in_root() {
	((EUID == 0)) || { say 'this is not Debian 12: its root takes root to unpack'; exit 77; }
	setup/debian-packages.sh setup/packages-wheel.txt
	cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kernel-delay
	mkdir -p "$cache" "$dist"
	exec 9>"$cache/wheel-root.lock"
	flock 9
	make_root "$cache/wheel-root"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir "$work"/{tree,packages,dist}
	fetch_python_packages "$work/packages"
	tar --exclude={./.git,./.venv,./build,./dist} -c . | tar -xC "$work/tree"
	# What it mounts and makes in the root goes with its mount namespace.
	unshare --mount bash -euo pipefail -c '
		mkdir -p "$1/work"
		mount --bind "$2" "$1/work"
		mount -t proc proc "$1/proc"
		chroot "$1" env -i HOME=/work PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euc "
			cd /work/tree
			python3 -m venv .venv
			.venv/bin/pip install --quiet --no-index --find-links ../packages \
				--requirement ../packages/requirements.txt
			PATH=/work/tree/.venv/bin:\$PATH setup/wheel.sh ../dist"
	' in-root "$cache/wheel-root" "$work" 9>&-
	cp "$work"/dist/*.whl "$dist"
}

if is_debian_12 && [[ -z ${KERNEL_DELAY_WHEEL_ROOT:-} ]]; then
	build_here
else
	build_in_root
fi
