#!/bin/sh
# The smallest legal environment: counts its steps, ends at 3, and has never heard of hello.
count=0
while IFS= read -r line; do
  id=${line#*\"id\":}
  id=${id%%,*}
  case $line in
    *'"op":"reset"'*) count=0; echo "{\"id\":$id,\"obs\":[$count,0.5],\"info\":{}}" ;;
    *'"op":"step"'*)
      count=$((count + 1))
      done=false
      [ "$count" -ge 3 ] && done=true
      echo "{\"id\":$id,\"obs\":[$count,0.5],\"reward\":1.5,\"terminated\":$done}" ;;
    *'"op":"close"'*) echo "{\"id\":$id,\"ok\":true}"; exit 0 ;;
    *) echo "{\"id\":$id,\"error\":{\"kind\":\"exception\",\"message\":\"unknown op\"}}" ;;
  esac
done
