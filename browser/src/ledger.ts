/**
 * The ledger: what a device has agreed to, said and spent, in IndexedDB; true ratings are written here and nowhere else.
 *
 * Every change is one transaction that first looks whether another tab was quicker. A report counts once the
 * transaction is complete, and only then can it be sent, so a crash loses at most something that was never said.
 */
import { DeviceError, TacitError } from "./errors.ts";
import type { Report } from "./report.ts";

export type Delivery = "waiting" | "sent" | "refused";

/** One report as the device remembers it; `rating` is the true one and stays here. */
export interface Entry extends Report {
  readonly rating: string;
  readonly epsilon: string;
  readonly delivery: Delivery;
}

export interface Header {
  /** What was spent before everything was deleted here, if it ever was: all that outlasts a deletion. */
  readonly spentBefore?: string;
  readonly token: string;
  /** How many changes there were: what a tab knows is true only while this is the same. */
  readonly changes: number;
  readonly lifetimeEpsilon: string;
  readonly policy: string | null;
}

export interface Contents {
  /** Without a token if everything was deleted, and no device was made since. */
  readonly header: Partial<Header> | undefined;
  /** The documents of all policies that were ever consented to. */
  readonly policies: readonly string[];
  /** In order of item and revision. */
  readonly entries: readonly Entry[];
}

export interface Changes {
  readonly header?: Partial<Header>;
  readonly policy?: { readonly id: string; readonly document: string };
  readonly entries?: readonly Entry[];
  /** Deletes all there is, but for this sum. */
  readonly allButSpent?: string;
}

const VERSION = 1;
const STORES = ["header", "policies", "entries"];

export class Ledger {
  readonly #database: IDBDatabase;

  private constructor(database: IDBDatabase) {
    this.#database = database;
    // Another tab that wants to replace the database must not wait for this one.
    database.onversionchange = () => database.close();
  }

  static async open(name: string): Promise<Ledger> {
    if (!globalThis.indexedDB) throw new DeviceError("there is no IndexedDB here; leave private browsing");
    return guarded(() => new Promise((resolve, reject) => {
      const request = indexedDB.open(name, VERSION);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("header");
        request.result.createObjectStore("policies");
        request.result.createObjectStore("entries", { keyPath: ["item", "revision"] });
      };
      request.onsuccess = () => resolve(new Ledger(request.result));
      request.onerror = () => reject(request.error);
    }));
  }

  /** Reads everything, as of one moment. */
  async read(): Promise<Contents> {
    return this.#transact("readonly", (transaction) => {
      const header = transaction.objectStore("header").get(0);
      const policies = transaction.objectStore("policies").getAll();
      const entries = transaction.objectStore("entries").getAll();
      return () => ({ header: header.result, policies: policies.result, entries: entries.result });
    });
  }

  /**
   * Makes a change durable if nothing has changed since `known`; null says that something has.
   *
   * What `decide` throws leaves everything as it was.
   */
  async change(known: Header | undefined, decide: () => Changes): Promise<Changes | null> {
    return this.#transact("readwrite", (transaction, fail) => {
      let made: Changes | null = null;
      const found = transaction.objectStore("header").get(0);
      found.onsuccess = () => {
        try {
          if (isSame(found.result, known)) put(transaction, found.result, (made = decide()));
        } catch (error) {
          fail(error);
          transaction.abort();
        }
      };
      return () => made;
    });
  }

  close(): void {
    this.#database.close();
  }

  /** Takes steps in one transaction, and returns their result once it is complete and on disk. */
  #transact<T>(mode: IDBTransactionMode, steps: (open: IDBTransaction, fail: (error: unknown) => void) => () => T): Promise<T> {
    return guarded(() => new Promise((resolve, reject) => {
      const transaction = this.#database.transaction(STORES, mode, { durability: "strict" });
      const result = steps(transaction, reject);
      transaction.oncomplete = () => resolve(result());
      transaction.onabort = () => reject(transaction.error);
    }));
  }
}

function isSame(found: Header | undefined, known: Header | undefined): boolean {
  return found?.token === known?.token && found?.changes === known?.changes;
}

function put(transaction: IDBTransaction, known: Header | undefined, changes: Changes): void {
  if (changes.allButSpent) {
    for (const name of STORES) transaction.objectStore(name).clear();
    transaction.objectStore("header").put({ spentBefore: changes.allButSpent }, 0);
  } else if (changes.header || changes.entries?.length) {
    transaction.objectStore("header").put(nextHeader(known, changes), 0);
    if (changes.policy) transaction.objectStore("policies").put(changes.policy.document, changes.policy.id);
    for (const entry of changes.entries ?? []) transaction.objectStore("entries").put(entry);
  }
}

/** Returns the header as it is after a change. */
export function nextHeader(known: Header | undefined, changes: Changes): Header {
  return { ...known, ...changes.header, changes: (known?.changes ?? 0) + 1 } as Header;
}

/** Turns what a browser says of its storage into an error of ours. */
async function guarded<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof TacitError) throw error;
    const reason = error instanceof Error ? error.name : "it was interrupted";
    throw new DeviceError(`the device's storage failed (${reason}); nothing was said or spent, open it again`);
  }
}
