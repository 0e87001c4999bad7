import { type Static, Type } from "typebox";
import { NAME_PATTERN } from "./identifiers.ts";

export const CreateKeyRequest = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 80, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" }),
    owner: Type.Optional(Type.String({ pattern: NAME_PATTERN, description: "an administrator's key only" })),
  },
  { additionalProperties: false },
);
export type CreateKeyRequest = Static<typeof CreateKeyRequest>;

export const KeyDescription = Type.Object({
  id: Type.String(),
  name: Type.String(),
  owner: Type.String(),
  admin: Type.Boolean(),
  created_at: Type.String(),
});
export type KeyDescription = Static<typeof KeyDescription>;

/** The only reply that ever holds the key itself. */
export const CreatedKey = Type.Object({ ...KeyDescription.properties, key: Type.String() });
export type CreatedKey = Static<typeof CreatedKey>;

export const KeyList = Type.Object({ keys: Type.Array(KeyDescription) });
export type KeyList = Static<typeof KeyList>;

export const RevokedKey = Type.Object({ id: Type.String(), revoked: Type.Literal(true) });
export type RevokedKey = Static<typeof RevokedKey>;

export const StoredArchive = Type.Object({ sha256: Type.String(), bytes: Type.Integer(), files: Type.Integer() });
export type StoredArchive = Static<typeof StoredArchive>;

export const Health = Type.Object({ status: Type.Literal("ok"), version: Type.String() });
export type Health = Static<typeof Health>;

export const ErrorReply = Type.Object({
  error: Type.Object({
    code: Type.String(),
    message: Type.String(),
    hint: Type.Union([Type.String(), Type.Null()]),
    details: Type.Record(Type.String(), Type.Unknown()),
  }),
});
export type ErrorReply = Static<typeof ErrorReply>;
