import { Type } from "typebox";

/** Names of machines: never shaped like a machine's id (`m` and 20 characters of `0-9a-z`). */
export const MACHINE_NAME_PATTERN = "^(?!m[0-9a-z]{20}$)[a-z][a-z0-9-]{0,39}$";
/** A host name, `*.` before it for all below it (and no other wildcard), `:port` after it; or an IPv4 address. */
export const EGRESS_HOST_PATTERN =
  "^(?=.{1,260}$)(?:\\*\\.)?(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?::[1-9][0-9]{0,4})?$";
export const LABEL_KEY_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$";
export const VARIABLE_NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,255}$";

const MAX_SECONDS = 366 * 24 * 3600;

export const MachineName = Type.String({
  pattern: MACHINE_NAME_PATTERN,
  description: "unique among the owner's machines",
});

export const Labels = Type.Record(
  Type.String({ pattern: LABEL_KEY_PATTERN }),
  Type.String({ maxLength: 256, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" }),
  { additionalProperties: false, maxProperties: 64, description: "names and texts of the caller's own" },
);

export const Environment = Type.Record(
  Type.String({ pattern: VARIABLE_NAME_PATTERN }),
  Type.String({ maxLength: 131_072, pattern: "^[^\\u0000]*$" }),
  { additionalProperties: false, maxProperties: 1024, description: "environment variables" },
);

/** A path inside a machine: absolute, without NUL. */
export const InnerPath = Type.String({ minLength: 1, maxLength: 4096, pattern: "^/[^\\u0000]*$" });

/** A user inside a machine: a name, `uid` or `uid:gid`. */
export const InnerUser = Type.String({ minLength: 1, maxLength: 64, pattern: "^[A-Za-z0-9_][A-Za-z0-9_.:-]*$" });

export const Port = Type.Integer({ minimum: 1, maximum: 65_535 });

export const Seconds = (description: string) => Type.Number({ exclusiveMinimum: 0, maximum: MAX_SECONDS, description });

/** Text, or bytes that are no UTF-8. */
export const TextOrBytes = Type.Union([
  Type.String(),
  Type.Object({ base64: Type.String({ pattern: "^[A-Za-z0-9+/]*={0,2}$" }) }, { additionalProperties: false }),
]);
