#!/bin/bash
# Installs the Debian packages listed in the given files, or named as arguments, that are missing.
# When none is, apt is not touched. `name [arch]` in a file is wanted on that architecture only.
set -euo pipefail

say() { echo "setup: $*" >&2; }

listed() {
	sed -n "s/^\([^# ]*\)\( \[$(uname -m)\]\)\?\$/\1/p" "$1" | grep .
}

wanted=()
for argument in "$@"; do
	if [[ $argument == *.txt ]]; then
		mapfile -t -O "${#wanted[@]}" wanted < <(listed "$argument")
	else
		wanted+=("$argument")
	fi
done

if ! command -v dpkg-query >/dev/null; then
	say "not a Debian: have these yourself: ${wanted[*]}"
	exit 0
fi

# dpkg-query fails when it has never heard of one of them, and still tells about the others.
present=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "${wanted[@]}" \
	2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${wanted[@]}"; do
	grep -qxF "$package" <<<"$present" || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)); then
	say "these Debian packages are missing: ${missing[*]}; install them, or run make as root"
	exit 77 # EX_NOPERM
fi

say "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Another apt may be at work: wait for its lock rather than fail.
apt=(apt-get --quiet --quiet --yes --option Dpkg::Use-Pty=0
	--option DPkg::Lock::Timeout=600 --option Acquire::Retries=3)
# The lists may be none or old; if they can't be renewed, what is there may still do.
"${apt[@]}" update >&2 || say "can't renew apt's lists; trying those that are there"
"${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null >&2
