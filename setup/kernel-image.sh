#!/bin/bash
# kernel-image.sh TREE OUTPUT: builds a kernel that the tests can boot, from a source tree of Linux.
#
# The image OUTPUT is all of it: what it needs is built in, and no module is made. The tree stays as
# it is; what is built goes to OUTPUT.build, where the next call takes it up again. That takes 3 GB,
# and 30 CPU minutes or more. Variables of make are passed on: an old kernel may need an old compiler,
# `CC=gcc-12 setup/kernel-image.sh ...` (GCC 12 builds 5.14 to 6.12; GCC 15 takes `bool` for a keyword,
# and refuses what is older than 6.14). `CONFIGURE_ONLY=1` stops when the configuration is made.
set -euo pipefail

say() { echo "kernel-image: $*" >&2; }

if (($# != 2)); then
	say 'two arguments, please: a source tree of Linux, and the image to make'
	exit 64 # EX_USAGE
fi
tree=$(readlink -m "$1") output=$(readlink -m "$2")
build=$output.build
here=$(dirname "$(readlink -f "$0")")
fragment=$here/kernel-image.config

if [[ ! -e $tree/kernel/configs/kvm_guest.config ]]; then
	say "$tree is no source tree of Linux: unpack one of https://cdn.kernel.org/pub/linux/kernel"
	exit 66 # EX_NOINPUT
fi
if [[ -e $tree/.config || -d $tree/include/config ]]; then
	say "$tree was built in, and make refuses to build beside that: run 'make -C $tree mrproper'"
	exit 65 # EX_DATAERR
fi
"$here/debian-packages.sh" "$here/packages-kernel-image.txt"
mkdir -p "$build"

# pahole writes enums of 64 bits from 1.24 on, as a kind of type that kernels before 6.0 do not
# know (their resolve_btfids dies of it), and not all of these ask it to leave that out.
pahole=pahole
if ! grep -qs BTF_KIND_ENUM64 "$tree/include/uapi/linux/btf.h" &&
	pahole --help 2>&1 | grep -q -e --skip_encoding_btf_enum64; then
	pahole=$build/pahole
	printf '#!/bin/sh\nexec pahole --skip_encoding_btf_enum64 "$@"\n' >"$pahole"
	chmod +x "$pahole"
fi

make=(make --directory="$tree" O="$build" ARCH=x86_64 PAHOLE="$pahole" ${CC:+CC="$CC"})
"${make[@]}" --quiet x86_64_defconfig kvm_guest.config >&2
(cd "$build" && "$tree/scripts/kconfig/merge_config.sh" -m .config "$fragment" >/dev/null)
"${make[@]}" --quiet olddefconfig mod2yesconfig >&2

# An option whose dependencies are not met vanishes without a word.
lost=()
while read -r line; do
	name=$(sed -E 's/^(# )?CONFIG_([A-Z0-9_]+).*/\2/' <<<"$line")
	if [[ $line == '#'* ]]; then
		grep -q "^CONFIG_$name=" "$build/.config" && lost+=("$line")
	elif ! grep -qxF "$line" "$build/.config"; then
		if grep -rqsE --include='Kconfig*' "^[[:space:]]*(menu)?config $name\$" "$tree"; then
			lost+=("$line")
		else
			say "this kernel has no CONFIG_$name"
		fi
	fi
done < <(grep -E '^(# )?CONFIG_[A-Z0-9_]+( is not set|=.*)$' "$fragment")
if ((${#lost[@]})); then
	say "the kernel's configuration contradicts ${fragment##*/}: $(printf '%s; ' "${lost[@]}")"
	exit 70 # EX_SOFTWARE
fi
[[ -z ${CONFIGURE_ONLY:-} ]] || exit 0

"${make[@]}" --quiet --jobs="$(nproc)" bzImage >&2
cp "$build/arch/x86/boot/bzImage" "$output"
say "$output is $(make --silent --directory="$tree" O="$build" kernelrelease)"
