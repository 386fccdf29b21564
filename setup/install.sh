#!/bin/bash
# install.sh WHEEL ROOT PREFIX PYTHON [VERSION...]: installs the wheel below ROOT, in PREFIX.
#
# PREFIX/lib/kernel-delay is a virtual environment (PEP 405) of the interpreter PYTHON, with the
# wheel and the libraries of Python that it needs. PREFIX/bin/kernel-delay leads into it. So it
# neither finds nor changes what others install for that Python. Pages for man, completions
# and the systemd units are where PREFIX has them.
#
# VERSIONS are those of the Pythons that PYTHON may be ("3.11 3.13"); without, it is asked. The
# extensions of all of them are in one folder, by the tags in their names.
set -euo pipefail
wheel=$(readlink -e "$1") root=$(readlink -m "$2") prefix=$(readlink -m "/$3") python=$4
shift 4
cd "$(dirname "$(readlink -f "$0")")/.."

case $wheel in
*x86_64.whl) machine=x86_64 ;;
*aarch64.whl) machine=aarch64 ;;
*) echo "install: $wheel is for neither x86-64 nor arm64" >&2; exit 65 ;;
esac
versions=("$@")
if ((!$#)); then
	versions=("$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')")
fi
home=$root$prefix/lib/kernel-delay share=$root$prefix/share
site=$home/lib/python3/site-packages
platforms=(--platform "linux_$machine")
for glibc in 34 28 17 5; do platforms+=(--platform "manylinux_2_${glibc}_$machine"); done
# Of either architecture's files; named so in Debian 12 and 13 where llvm itself is not installed.
for strip in llvm-strip llvm-strip-14 llvm-strip-19; do
	command -v "$strip" >/dev/null && break
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$home"
mkdir -p "$site" "$home/bin" "$root$prefix/bin"
for version in "${versions[@]}"; do
	echo "install: the libraries for Python $version" >&2
	.venv/bin/pip install --quiet --no-compile --target "$work/$version" --python-version "$version" \
		--only-binary :all: "${platforms[@]}" "${wheel}[metrics]"
	ln -sfn python3 "$home/lib/python$version"
	mv "$work/$version/bin/kernel-delay" "$home/bin"
	mv "$work/$version/share" "$work/share.$version"
	# Others' commands.
	rm -rf "$work/$version/bin"
	cp -a "$work/$version/." "$site"
done
# Some wheels have their debug information: 80 of 90 MB. And no module is a command.
find "$site" -name '*.so' ! -path '*/kernel_delay*' -exec "$strip" --strip-unneeded {} +
find "$site" -name '*.py' -exec sed -i '1{/^#!/d}' {} +
# What pip would remove, which it does not: the whole folder goes.
rm -rf "$site"/*.dist-info/{RECORD,INSTALLER,REQUESTED,direct_url.json}

ln -s "$python" "$home/bin/python3"
printf '%s\n' "home = $(dirname "$python")" 'include-system-site-packages = false' >"$home/pyvenv.cfg"
for name in kernel-delay kernel_delay; do
	ln -sfn ../lib/kernel-delay/bin/kernel-delay "$root$prefix/bin/$name"
done
mkdir -p "$share" "$root$prefix/lib/systemd/system"
cp -a "$work/share.${versions[0]}/." "$share"
echo '.so man1/kernel-delay.1' >"$share/man/man1/kernel_delay.1"
for unit in kernel-delay-watch.service kernel-delay-watch@.service; do
	sed "s|^ExecStart=[^ ]*|ExecStart=$prefix/bin/kernel-delay|" \
		"setup/$unit" >"$root$prefix/lib/systemd/system/$unit"
done
# As root has them, whoever's umask this is.
chmod -R u=rwX,go=rX "$home"
