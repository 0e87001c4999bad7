/**
 * Text from a sandbox, safe for terminals, logs and errors: control characters but newline and tab, and the characters that
 * reorder text or break lines, become visible escapes. Invalid UTF-8 becomes U+FFFD.
 */
export function escapeForLog(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(UNSAFE, (character) => {
    const point = character.codePointAt(0) ?? 0;
    return point < 0x100 ? `\\x${point.toString(16).padStart(2, "0")}` : `\\u{${point.toString(16)}}`;
  });
}

// Cc without \t and \n; Cf (bidirectional controls, zero-width, tags); Zl and Zp; private use and unassigned code points.
const UNSAFE = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;
