import { type Static, Type } from "typebox";
import { Port } from "./rules.ts";

const DAY_SECONDS = 24 * 3600;

export const PortEntry = Type.Object({
  port: Port,
  pid: Type.Union([Type.Integer(), Type.Null()]),
  public: Type.Boolean({ description: "answers without a key or a link" }),
  url: Type.String({ description: "for browsers and curl" }),
  path_url: Type.String({ description: "for programs" }),
});
export type PortEntry = Static<typeof PortEntry>;

export const PortList = Type.Object({ ports: Type.Array(PortEntry) });
export type PortList = Static<typeof PortList>;

export const SetPortRequest = Type.Object({ public: Type.Boolean() }, { additionalProperties: false });
export type SetPortRequest = Static<typeof SetPortRequest>;

export const PortParams = Type.Object({ machine: Type.String({ minLength: 1, maxLength: 64 }), port: Port });

export const MakeLinkRequest = Type.Object(
  { expires: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: DAY_SECONDS, description: "seconds" })) },
  { additionalProperties: false },
);
export type MakeLinkRequest = Static<typeof MakeLinkRequest>;

export const PortLink = Type.Object({ url: Type.String(), expires_at: Type.String({ description: "ISO 8601, UTC" }) });
export type PortLink = Static<typeof PortLink>;

/** All links of the machine, of every port. */
export const RevokedLinks = Type.Object({ revoked: Type.Literal(true) });
export type RevokedLinks = Static<typeof RevokedLinks>;
