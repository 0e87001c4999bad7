import { type Static, Type } from "typebox";

export const STORAGE_KINDS = ["archives", "layers", "images", "machines"] as const;
export type StorageKind = (typeof STORAGE_KINDS)[number];

const kind = Type.Union([
  Type.Literal("archives"),
  Type.Literal("layers"),
  Type.Literal("images"),
  Type.Literal("machines"),
]);

export const Storage = Type.Object({
  disk: Type.Object({
    total: Type.Integer(),
    free: Type.Integer(),
    low_water: Type.Integer({ description: "with less free, new work is refused" }),
  }),
  parts: Type.Array(Type.Object({ kind, count: Type.Integer(), bytes: Type.Integer({ description: "on disk" }) })),
});
export type Storage = Static<typeof Storage>;

export const CollectRequest = Type.Object({ dry_run: Type.Optional(Type.Boolean()) }, { additionalProperties: false });
export type CollectRequest = Static<typeof CollectRequest>;

/** What was removed, or would be, least recently used first. */
export const Collected = Type.Object({
  removed: Type.Array(Type.Object({ kind, id: Type.String(), bytes: Type.Integer() })),
  bytes: Type.Integer(),
});
export type Collected = Static<typeof Collected>;
