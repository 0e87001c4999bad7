import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface CuttingProxy {
  port: number;
  /** Where connections lead from now on. */
  leadTo: (port: number) => void;
  /** The next answer of the server is thrown away and its connection cut, as many times as said. */
  cutNextAnswers: (times: number) => void;
  cuts: () => number;
  /** Every connection is cut now. */
  cut: () => void;
  close: () => void;
}

/** A TCP proxy that can lose answers: what a client sees when the network breaks after the server has done its work. */
export async function startCuttingProxy(): Promise<CuttingProxy> {
  let toCut = 0;
  let done = 0;
  let targetPort = 0;
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(targetPort, "127.0.0.1");
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => sockets.delete(socket));
    }
    client.pipe(server);
    server.on("data", (chunk: Buffer) => {
      if (toCut === 0) {
        client.write(chunk);
        return;
      }
      toCut -= 1;
      done += 1;
      client.destroy();
      server.destroy();
    });
    client.on("close", () => server.destroy());
    server.on("close", () => client.end());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    port: (proxy.address() as AddressInfo).port,
    leadTo: (port) => {
      targetPort = port;
    },
    cutNextAnswers: (times) => {
      toCut = times;
    },
    cuts: () => done,
    cut: () => {
      done += 1;
      for (const socket of sockets) socket.destroy();
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    },
  };
}
