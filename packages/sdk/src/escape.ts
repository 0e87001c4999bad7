// Controls, characters that reorder or hide text (bidirectional marks, zero-width, tags), lone surrogates, line separators.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;

/**
 * Text that a terminal or a log shows as it is: every control, hidden or reordering character becomes a visible escape such
 * as `\x1b`. Newlines and tabs stay only with `keepLines`.
 *
 * @example escapeControl("\u001b[2Jhi"); // "\\x1b[2Jhi"
 */
export function escapeControl(text: string, { keepLines = false }: { keepLines?: boolean } = {}): string {
  return text.replace(UNSAFE, (character) => {
    if (keepLines && (character === "\n" || character === "\t")) return character;
    if (character === "\n") return "\\n";
    if (character === "\t") return "\\t";
    if (character === "\r") return "\\r";
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
