#!/bin/sh
# What a recipe has beside Debian packages: Python packages and links. $1: the new root.
set -eu
root=$1
inputs=/sandpool/inputs
if [ -s $inputs/requirements.txt ]; then
  mkdir "$root/.build"
  mount --rbind /sandpool "$root/.build"
  chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp/uv LC_ALL=C.UTF-8 \
    HTTP_PROXY="$http_proxy" HTTPS_PROXY="$https_proxy" ALL_PROXY="$https_proxy" \
    SSL_CERT_FILE=/.build/certificates.pem UV_CACHE_DIR=/tmp/uv/cache UV_NO_CONFIG=1 UV_NO_PROGRESS=1 \
    UV_PYTHON_DOWNLOADS=never UV_HTTP_TIMEOUT=60 UV_LINK_MODE=copy \
    UV_DEFAULT_INDEX="$(head -n 1 $inputs/index)" UV_INDEX="$(tail -n +2 $inputs/index | tr '\n' ' ')" \
    /.build/uv pip install --system --break-system-packages --python /usr/bin/python3 --no-build \
    --require-hashes --compile-bytecode --requirements /.build/inputs/requirements.txt
  umount -l "$root/.build"
  rmdir "$root/.build"
  rm -rf "$root/tmp/uv"
fi
while read -r path target; do
  mkdir -p "$root${path%/*}"
  ln -s "$target" "$root$path"
  # A wheel does not keep every file's mode.
  [ ! -f "$root$target" ] || chmod a+x "$root$target"
done <$inputs/links
