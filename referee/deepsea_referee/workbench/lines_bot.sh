# Takes what it can, and turns back as soon as it may.
while read -r line; do
  [[ $line == '{"type":"hello"'* ]] && echo '{"type":"ready"}'
  [[ $line == '{"type":"decide"'* ]] || continue
  [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
  [[ $line =~ \"legal\":\[\"([^\"]+)\",\"([^\"]+) ]] && action=${BASH_REMATCH[1]} # the default
  [[ ${BASH_REMATCH[2]} == take || ${BASH_REMATCH[2]} == back ]] && action=${BASH_REMATCH[2]}
  echo "{\"type\":\"answer\",\"id\":$id,\"action\":\"$action\"}"
done
