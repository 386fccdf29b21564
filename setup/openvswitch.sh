#!/bin/bash
# Prints the root below which Open vSwitch's programs are: `/` where Debian's packages are
# installed; else they are unpacked into a cache, so that no service starts on this machine, and
# only the libraries they need are installed.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
packages=(openvswitch-switch openvswitch-common)

say() { echo "setup: $*" >&2; }

installed() {
	[[ $(dpkg-query --show --showformat='${db:Status-Status} ' "${packages[@]}" 2>/dev/null) \
		== 'installed installed ' ]]
}

candidate() {
	LC_ALL=C apt-cache policy "${packages[0]}" | sed -n 's/^  Candidate: //p'
}

library_dependencies() {
	dpkg-deb --field "$1" Depends | tr ',' '\n' | sed -n 's/^ *\(lib[^ |:]*\).*/\1/p'
}

if installed; then
	echo /
	exit
fi

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kernel-delay
mkdir -p "$cache"
exec 9>"$cache/openvswitch.lock"
flock 9

# What was unpacked before serves, even if the archive has a newer one by now.
for folder in "$cache"/ovs-*; do
	if [[ -e $folder/.complete ]]; then
		"$here/debian-packages.sh" $(<"$folder/.complete") 9>&-
		echo "$folder"
		exit
	fi
done

version=$(candidate)
if [[ -z $version || $version == '(none)' ]]; then
	say "renewing apt's lists"
	apt-get --quiet --quiet --option DPkg::Lock::Timeout=600 update >&2
	version=$(candidate)
fi
folder=$cache/ovs-$version
say "fetching Open vSwitch $version into $folder"
rm -rf "$folder"
mkdir -p "$folder/packages"
# apt's own user may not write below a private home, hence the sandbox is left out.
(cd "$folder/packages" && apt-get --quiet --quiet --option APT::Sandbox::User=root \
	--option Acquire::Retries=3 download "${packages[@]}" >&2)
libraries=()
for package in "$folder"/packages/*.deb; do
	dpkg-deb --extract "$package" "$folder"
	mapfile -t -O "${#libraries[@]}" libraries < <(library_dependencies "$package")
done
rm -r "$folder/packages"
mapfile -t libraries < <(printf '%s\n' "${libraries[@]}" | sort -u)
"$here/debian-packages.sh" "${libraries[@]}" 9>&-
echo "${libraries[*]}" >"$folder/.complete"
echo "$folder"
