/** One small script a shell; all of them ask `sandpool __complete` for candidates, and leave file names to the shell. */
export const SCRIPTS = {
  bash: `# Completion of sandpool for bash: source <(sandpool completion bash)
_sandpool() {
  # Bash splits NAME:/PATH at the colon, so the words are taken from the line.
  local typed=\${COMP_LINE:0:COMP_POINT} words line prefix=""
  read -ra words <<< "$typed"
  [[ $typed == *[[:space:]] ]] && words+=("")
  [[ $COMP_WORDBREAKS == *:* && \${words[-1]} == *:* ]] && prefix=\${words[-1]%:*}:
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line#"$prefix"}")
  done < <(sandpool __complete -- "\${words[@]:1}" 2>/dev/null)
  [[ \${COMPREPLY[0]-} == *:/ ]] && compopt -o nospace
}
complete -o default -F _sandpool sandpool
`,
  zsh: `#compdef sandpool
# Completion of sandpool for zsh: source <(sandpool completion zsh), after compinit
_sandpool() {
  local -a found
  found=("\${(@f)$(sandpool __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=("\${(@)found:#}")
  if (( \${#found} )); then
    if [[ \${found[1]} == *:/ ]]; then compadd -S '' -- "\${(@)found}"; else compadd -- "\${(@)found}"; fi
  else
    _files
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _sandpool "$@"; else compdef _sandpool sandpool; fi
`,
  fish: `# Completion of sandpool for fish: sandpool completion fish | source
function __sandpool_complete
  set -l words (commandline -opc) (commandline -ct)
  sandpool __complete -- $words[2..-1] 2>/dev/null
end
complete -c sandpool -a '(__sandpool_complete)'
`,
} as const;
