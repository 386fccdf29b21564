#!/bin/bash
# wheel.sh DIST [ARCHITECTURE]: builds the wheel into DIST, with the libraries it needs inside.
#
# It runs wherever glibc is as new as RHEL 9's, 2.34, or newer. The libraries come from the
# machine it is built on, and ask for the glibc of that machine's release: Debian 12's get by
# with 2.34, newer ones' don't. So on any other machine it is built in a root of Debian 12.
#
# ARCHITECTURE, amd64 or arm64, is this machine's if not given. For arm64 on another machine it is
# cross-compiled in such a root, which has arm64's libraries beside the machine's own programs
# (Debian's multiarch): nothing of arm64 is run.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
dist=$(readlink -m "$1") architecture=${2:-} native=$(uname -m)

say() { echo "wheel: $*" >&2; }

case $architecture in
'') machine=$native ;;
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) say "there is no wheel for $architecture: say amd64 or arm64"; exit 64 ;;
esac
platform=manylinux_2_34_$machine cross_file=setup/cross-$machine.ini
[[ $machine == "$native" ]] && foreign= || foreign=$architecture
if [[ $foreign && ! -e $cross_file ]]; then
	say "a wheel for $foreign is built on such a machine"
	exit 64
fi

is_debian_12() {
	[[ $(. /etc/os-release && echo "$ID $VERSION_ID") == 'debian 12' ]]
}

# What make_root leaves.
is_in_root() { [[ -e /.complete ]]; }

build_here() {
	say building
	rm -rf build/wheel
	.venv/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheel \
		--config-settings=build-dir=build/python .
	.venv/bin/auditwheel repair --plat "$platform" --only-plat --wheel-dir "$dist" build/wheel/*.whl
}

# What dpkg knows of its packages, and of no other's with the same name: auditwheel asks it whose
# the libraries are.
own_packages() {
	mkdir "$1"
	ln -s /var/lib/dpkg/{arch,info} "$1"
	awk -v RS= -v ORS='\n\n' "/\nArchitecture: $foreign\n/" /var/lib/dpkg/status >"$1/status"
}

cross_build() {
	say "building for $machine"
	# The tag of the wheel is of Python's own platform, if nothing says another.
	_PYTHON_HOST_PLATFORM=linux-$machine .venv/bin/pip wheel --quiet --no-build-isolation \
		--no-deps --wheel-dir build/wheel --config-settings=build-dir="build/$machine" \
		--config-settings=setup-args="--cross-file=$PWD/$cross_file" .
	# By name auditwheel knows the platforms of this machine alone. Of the wheel's own it takes
	# the oldest that has all symbols.
	own_packages "$PWD/build/dpkg"
	DPKG_ADMINDIR=$PWD/build/dpkg .venv/bin/auditwheel repair --plat auto --only-plat \
		--wheel-dir "$dist" build/wheel/*.whl
	[[ -n $(find "$dist" -name "*-$platform.whl") ]] || { say "it is not for $platform"; exit 70; }
}

# The packages to build with, for the Python of Debian 12, by this machine's pip: in the root
# there is neither its configuration nor, perhaps, a network.
fetch_python_packages() {
	local platforms=()
	for glibc in 34 28 17 5; do platforms+=(--platform "manylinux_2_${glibc}_$native"); done
	.venv/bin/python setup/python_packages.py >"$1/requirements.txt"
	.venv/bin/python setup/python_packages.py wheel >>"$1/requirements.txt"
	.venv/bin/pip download --quiet --dest "$1" --python-version 3.11 --only-binary :all: \
		"${platforms[@]}" --requirement "$1/requirements.txt"
}

# Debian's packages to build with; to build for another architecture, its libraries and headers.
root_packages() {
	sed -n "s/^\([^# ]*\)\( \[$native\]\)\?\$/\1/p" setup/packages-build.txt | grep . |
		if [[ $foreign ]]; then
			sed "s/^python3-dev$/lib&/; s/^\(lib.*\|zlib1g\)-dev$/&:$foreign/"
			echo "gcc-$machine-linux-gnu"
		else
			cat
		fi
}

# A root with what the build needs, unpacked once.
make_root() {
	[[ -e $1/.complete ]] && return
	say "unpacking Debian 12 into $1"
	rm -rf "$1"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
		'Origin: Debian' 'Label: Debian' | sed -n 1p)
	mmdebstrap --quiet --variant=essential --include="$(root_packages | paste -sd,)" \
		--architectures="$(dpkg --print-architecture)${foreign:+,$foreign}" \
		--aptopt='APT::Install-Recommends "false"' bookworm "$1" ${mirror:+"$mirror"}
	touch "$1/.complete"
}

build_in_root() {
	((EUID == 0)) || { say 'it takes root to unpack Debian 12'; exit 77; }
	setup/debian-packages.sh setup/packages-wheel.txt
	cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kernel-delay
	mkdir -p "$cache" "$dist"
	exec 9>"$cache/wheel-root.lock"
	flock 9
	root=$cache/wheel-root${foreign:+-$foreign}
	make_root "$root"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir "$work"/{tree,packages,dist}
	fetch_python_packages "$work/packages"
	tar --exclude={./.git,./.venv,./build,./dist} -c . | tar -xC "$work/tree"
	setup/version.sh >"$work/tree/.version"
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
			PATH=/work/tree/.venv/bin:\$PATH setup/wheel.sh ../dist $3"
	' in-root "$root" "$work" "$architecture" 9>&-
	cp "$work"/dist/*.whl "$dist"
}

if [[ $foreign ]] && is_in_root; then
	cross_build
elif [[ ! $foreign ]] && is_debian_12 && [[ -z ${KERNEL_DELAY_WHEEL_ROOT:-} ]]; then
	build_here
else
	build_in_root
fi
