/** A provider's side of the compact form, for tests: anything but the one valid encoding is refused. */
import { encodeCompact, type Policy, type Report } from "../src/index.ts";

export function decodeCompact(batch: Uint8Array, policies: ReadonlyMap<string, Policy>): Report[] {
  let position = 0;
  const take = (count: number): Uint8Array => {
    if (position + count > batch.length) throw new Error("it ends early");
    return batch.subarray(position, (position += count));
  };
  const varint = (): bigint => {
    let number = 0n;
    for (let group = 0n; group < 9n; group++) {
      const byte = take(1)[0]!;
      number |= BigInt(byte & 127) << (7n * group);
      if (byte < 128) return number;
    }
    throw new Error("a number is too long");
  };
  if (Buffer.from(take(4)).toString("latin1") !== "tcr\x01") throw new Error("another version");
  const policy = policies.get(Buffer.from(take(32)).toString("hex"));
  if (!policy) throw new Error("an unknown policy");
  const flags = take(1)[0]!;
  const count = Number(varint());
  if (flags > 3 || count < 1 || count > 1000) throw new Error("flags or count");
  const text = (): string => new TextDecoder("utf-8", { fatal: true }).decode(take(Number(varint())));
  const items = Array.from({ length: count }, () => (flags & 1 ? String(varint()) : text()));
  const revisions = items.map(() => (flags & 2 ? Number(varint()) : 0));
  const { bits } = policy.channel;
  const packed = take(Math.ceil((count * bits) / 8));
  const stream = Array.from(packed, (byte) => byte.toString(2).padStart(8, "0")).join("");
  const reports = items.map((item, at) => ({
    policy: policy.id, item, symbol: parseInt(stream.slice(at * bits, (at + 1) * bits), 2), revision: revisions[at]!,
  }));
  if (!Buffer.from(encodeCompact(reports, policy)).equals(batch)) throw new Error("not the one valid way");
  return reports;
}
