#!/bin/sh
# Runs as root of a build sandbox: makes a root file system from Debian packages as /build/image.tar.
set -eu
inputs=/sandpool/inputs
packages=$(cat $inputs/packages)
# /proc and /sys of the sandbox cannot be mounted again in it; they are bound by the hooks instead.
exec mmdebstrap --mode=root --format=tar --variant=minbase \
  --skip=chroot/mount/proc,chroot/mount/sys,check/qemu \
  ${packages:+--include="$packages"} \
  --aptopt='APT::Sandbox::User "root"' --aptopt='Acquire::Retries "3"' \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --extract-hook='mkdir -p "$1/proc" && mount --rbind /proc "$1/proc"' \
  --customize-hook='sh /sandpool/customize.sh "$1"' \
  --customize-hook='umount -l "$1/proc"' \
  '' /build/image.tar $inputs/sources.list
