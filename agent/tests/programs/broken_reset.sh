#!/bin/sh
# Row 6 cannot be reset; all others can.
row=0
while IFS= read -r line; do
  id=${line#*\"id\":}
  id=${id%%,*}
  case $line in
    *'"op":"hello"'*)
      case $line in *'"index":6,'*) row=6 ;; esac
      echo "{\"id\":$id,\"ok\":true,\"protocol\":1}" ;;
    *)
      if [ "$row" = 6 ]; then
        echo "{\"id\":$id,\"error\":{\"kind\":\"exception\",\"type\":\"E\",\"message\":\"no\",\"traceback\":\"line 1\"}}"
      else
        echo "{\"id\":$id,\"obs\":0}"
      fi ;;
  esac
done
