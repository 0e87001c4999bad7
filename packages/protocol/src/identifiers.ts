import { randomBytes } from "node:crypto";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const ID_LENGTH = 20;

/** Names of pools. They hold no `_`, every id of a pool does, so a name is never shaped like an id. */
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

const MACHINE_ID_LENGTH = 20;
const EXEC_ID_LENGTH = 16;

/** A new id of a machine: `m` and 20 characters of `0-9a-z`, 100 random bits; fixed length, never reused. */
export function makeMachineId(): string {
  return compactId("m", randomBytes(MACHINE_ID_LENGTH));
}

export function isMachineId(text: string): boolean {
  return /^m[0-9a-z]{20}$/.test(text);
}

/** A new id of an exec: `x` and 16 characters of `0-9a-z`; always the same one from the same 16 bytes (a hash) or more. */
export function makeExecId(bytes: Uint8Array = randomBytes(EXEC_ID_LENGTH)): string {
  return compactId("x", bytes.subarray(0, EXEC_ID_LENGTH));
}

export function isExecId(text: string): boolean {
  return /^x[0-9a-z]{16}$/.test(text);
}

function compactId(lead: string, bytes: Uint8Array): string {
  let text = lead;
  for (const byte of bytes) text += ALPHABET[byte & 31];
  return text;
}
