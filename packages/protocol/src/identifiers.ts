import { randomBytes } from "node:crypto";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const ID_LENGTH = 20;

/** Names of pools and machines. They hold no `_`, every id does, so a name is never shaped like an id. */
export const NAME_PATTERN = "^[a-z][a-z0-9-]{0,39}$";
export const SHA256_PATTERN = "^[0-9a-f]{64}$";

export type IdKind = "pool" | "key" | "op" | "req" | "st";

/** A new random id such as `pool_7m2k…`: 100 random bits, fixed length, never reused. */
export function makeId(kind: IdKind): string {
  let text = `${kind}_`;
  for (const byte of randomBytes(ID_LENGTH)) text += ALPHABET[byte & 31];
  return text;
}

/** Whether the text has the form of an id of that kind. */
export function isId(kind: IdKind, text: string): boolean {
  return text.startsWith(`${kind}_`) && /^[a-z]+_[0-9a-hj-km-np-tv-z]{20}$/.test(text);
}
