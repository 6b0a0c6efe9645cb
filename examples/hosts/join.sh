#!/bin/sh
# What join.yaml hands in. Words of Plimsoll in braces are replaced: token, name, count, engine, controller, experiment,
# directory; all else is the script's own. Each agent needs a name and a directory of its own, and removes the latter.
i=0
while [ $i -lt {count} ]; do
  i=$((i + 1))
  setsid {engine} agent --join {token} --name {name}.$i --directory "$(mktemp -d)" >/dev/null 2>&1 </dev/null &
done
