/** The provider's HTTP interface, as the pages use it. */

export interface Item {
  item: string;
  title: string;
}

export interface ProviderList {
  items: { item: string; score: number | null; rank: number }[];
  fallback: boolean;
  reason: "reports" | "cold-start";
  run: number | null;
}

interface ItemPage {
  items: Item[];
  next: string | null;
  total: number;
}

const ITEMS_A_PAGE = 10_000;
const MOST_PAGES = 1000;

/** What the provider answered instead of what was asked for; code "offline" when nothing answered. */
export class ServiceError extends Error {
  constructor(
    readonly code: string,
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ServiceError";
  }
}

/** Ask the provider; anything but success is a `ServiceError` in words. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "omit", redirect: "error", referrerPolicy: "no-referrer", ...init });
  } catch {
    throw new ServiceError("offline", 0, "The provider does not answer. Check the connection and try again.");
  }
  if (answer.ok) return answer;
  throw await problemOf(answer);
}

/** Ask for a JSON document. */
export async function askJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await ask(path, init)).json()) as T;
}

/** The header that shows a token. */
export function bearer(token: string): HeadersInit {
  return { Authorization: `Bearer ${token}` };
}

/** Fetch the whole catalogue, so that the provider never learns what is looked at. */
export async function allItems(): Promise<Item[]> {
  const found: Item[] = [];
  let after: string | null = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const from: string = after === null ? "" : `&after=${encodeURIComponent(after)}`;
    const answer: ItemPage = await askJson<ItemPage>(`/v1/items?limit=${ITEMS_A_PAGE}${from}`);
    found.push(...answer.items);
    after = answer.next;
    if (after === null) return found;
  }
  throw new ServiceError("too-large", 0, `The catalogue has more than ${MOST_PAGES * ITEMS_A_PAGE} items.`);
}

/** Fetch the published item model, or null while there is none. */
export async function itemModel(): Promise<Uint8Array | null> {
  try {
    const answer = await ask("/v1/model/items", { cache: "no-cache" });
    return new Uint8Array(await answer.arrayBuffer());
  } catch (error) {
    if (error instanceof ServiceError && error.code === "no-model") return null;
    throw error;
  }
}

/** Ask what the provider itself would recommend to this device, from its reports. */
export function providerList(token: string, n: number): Promise<ProviderList> {
  return askJson<ProviderList>(`/v1/recommendations?n=${n}`, { headers: bearer(token) });
}

/** Say an error in one line; what the service and the library say is fit to be shown. */
export function inWords(error: unknown): string {
  return error instanceof Error ? error.message : "Something unexpected happened; reload the page.";
}

async function problemOf(answer: Response): Promise<ServiceError> {
  try {
    const { code, detail, title } = (await answer.json()) as Record<string, unknown>;
    return new ServiceError(String(code), answer.status, String(detail ?? title));
  } catch {
    return new ServiceError("unknown", answer.status, `The provider answered with status ${answer.status}.`);
  }
}
