import { createHash, randomBytes } from "node:crypto";

/** A new key: 256 random bits. Only its hash is stored. */
export function makeSecret(): string {
  return `sp_${randomBytes(32).toString("base64url")}`;
}

/** SHA-256 of a key; enough without salt or stretching because the key itself is uniformly random. */
export function hashSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}
