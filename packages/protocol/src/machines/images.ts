import { type Static, Type } from "typebox";
import type { WireError } from "../errors.ts";

const NullableText = Type.Union([Type.String(), Type.Null()]);

export const IMPORTED_IMAGE_PATTERN = "^[a-z][a-z0-9._-]{0,127}$";

export const Image = Type.Object({
  id: Type.Union([Type.String(), Type.Null()], { description: "null: a recipe not built yet" }),
  name: Type.String(),
  kind: Type.Union([Type.Literal("host"), Type.Literal("recipe"), Type.Literal("pulled"), Type.Literal("imported")]),
  source: NullableText,
  bytes: Type.Union([Type.Integer(), Type.Null()], { description: "on disk" }),
  created_at: NullableText,
  description: Type.String(),
});
export type Image = Static<typeof Image>;

export const ImageList = Type.Object({ images: Type.Array(Image) });
export type ImageList = Static<typeof ImageList>;

const reference = Type.String({ minLength: 1, maxLength: 512, pattern: "^[\\x21-\\x7e]+$" });

/** Exactly one of the two. */
export const MakeImageRequest = Type.Union([
  Type.Object({ build: reference }, { additionalProperties: false }),
  Type.Object({ pull: reference }, { additionalProperties: false }),
]);
export type MakeImageRequest = Static<typeof MakeImageRequest>;

export const ImportImageQuery = Type.Object(
  { name: Type.String({ pattern: IMPORTED_IMAGE_PATTERN }) },
  { additionalProperties: false },
);

export const RemovedImage = Type.Object({ id: Type.String(), removed: Type.Literal(true) });
export type RemovedImage = Static<typeof RemovedImage>;

/** One line of a build, pull or import. */
export type ImageEvent =
  | { event: "progress"; phase: string; done: number; total: number; text?: string }
  | { event: "heartbeat" }
  | { event: "image"; image: Image }
  | { event: "error"; error: WireError; status: number };
