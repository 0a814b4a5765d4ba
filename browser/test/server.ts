/** A provider for tests, on this machine: it decodes what it gets, and answers as it is told. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Policy, Report } from "../src/index.ts";
import { decodeCompact } from "./compact-decoder.ts";

export interface Request {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  reports: Report[];
}

/** Answers one request in place of the usual answer; what returns false has the usual one follow. */
export type Answer = (response: ServerResponse, request: Request) => boolean | void;

export class Provider {
  readonly requests: Request[] = [];
  /** What is stored: by item and revision, the first write wins. */
  readonly stored = new Map<string, Report>();
  /** Unusual answers to come, in order. */
  readonly answers: Answer[] = [];
  readonly #server: Server;

  constructor(readonly policies: ReadonlyMap<string, Policy>) {
    this.#server = createServer((message, response) => void this.#handle(message, response));
  }

  async listen(port = 0): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of message) parts.push(part as Buffer);
    const reports = message.method === "POST" ? decodeCompact(Uint8Array.from(Buffer.concat(parts)), this.policies) : [];
    const request = { method: message.method!, path: message.url!, headers: message.headers, reports };
    this.requests.push(request);
    const answer = this.answers.shift();
    if (answer && answer(response, request) !== false) return;
    if (message.method === "DELETE") {
      this.stored.clear();
      response.writeHead(204).end();
    } else this.#accept(reports, response);
  }

  #accept(reports: Report[], response: ServerResponse): void {
    let accepted = 0;
    for (const report of this.store(reports)) accepted += +report;
    json(response, 200, { accepted, duplicates: reports.length - accepted, rejected: [] });
  }

  /** Stores reports; says of each whether it is new. */
  store(reports: readonly Report[]): boolean[] {
    return reports.map((report) => {
      const key = `${report.revision} ${report.item}`;
      const fresh = !this.stored.has(key);
      if (fresh) this.stored.set(key, report);
      return fresh;
    });
  }
}

export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
}
