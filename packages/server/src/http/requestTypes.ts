declare module "fastify" {
  interface FastifyRequest {
    /** The JSON body's bytes as they came, for members that are only forwarded. */
    rawBody: Buffer | null;
  }
}

export {};
