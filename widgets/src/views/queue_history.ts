/** How full queues were, as far as this page has seen it. */

import type { Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";

export interface Sample {
  readonly time: number;
  readonly depth: number;
  readonly put: number;
  readonly taken: number;
}

const KEPT = 600;
const RATE_SECONDS = 3;

export class QueueHistory {
  private readonly samples = new Map<string, Sample[]>();
  private readonly waits: { time: number; seconds: Map<string, number> }[] = [];
  private last = 0;

  constructor(private readonly feed: Feed) {}

  /** Take in what the kernel has told. */
  observe(): void {
    const time = this.feed.told;
    if (time <= this.last) return;
    this.last = time;
    for (const row of this.feed.table("queues")) {
      const name = this.feed.name(row, "queue");
      const known = this.samples.get(name) ?? [];
      known.push({
        time, depth: number(row, "depth"), put: number(row, "put"), taken: number(row, "taken"),
      }); // prettier-ignore
      if (known.length > KEPT) known.shift();
      this.samples.set(name, known);
    }
    const seconds = new Map<string, number>();
    for (const row of this.feed.table("waits")) {
      const key = waitKey(this.feed.name(row, "queue"), this.feed.name(row, "operation"));
      seconds.set(key, (seconds.get(key) ?? 0) + number(row, "seconds"));
    }
    this.waits.push({ time, seconds });
    if (this.waits.length > KEPT) this.waits.shift();
  }

  of(name: string): readonly Sample[] {
    return this.samples.get(name) ?? [];
  }

  /** Elements a second, in and out, lately. */
  rates(name: string): { put: number; taken: number } {
    const all = this.of(name);
    const last = all[all.length - 1];
    const first = last && all.find((s) => s.time >= last.time - RATE_SECONDS);
    if (!last || !first || first === last) return { put: 0, taken: 0 };
    const passed = last.time - first.time;
    return { put: (last.put - first.put) / passed, taken: (last.taken - first.taken) / passed };
  }

  /** The part of the time that was spent in waits of an operation, lately; all of its threads. */
  waiting(name: string, operation: string, open: readonly Row[]): number {
    const last = this.waits[this.waits.length - 1];
    const first = last && this.waits.find((w) => w.time >= last.time - RATE_SECONDS);
    if (!last || !first || first === last) return 0;
    const key = waitKey(name, operation);
    let seconds = (last.seconds.get(key) ?? 0) - (first.seconds.get(key) ?? 0);
    for (const row of open) seconds += Math.min(last.time - number(row, "since"), last.time - first.time);
    return Math.min(seconds / (last.time - first.time), 1);
  }

  operations(name: string): string[] {
    const prefix = waitKey(name, "");
    const keys = this.waits[this.waits.length - 1]?.seconds.keys() ?? [];
    return [...keys].filter((k) => k.startsWith(prefix)).map((k) => k.slice(prefix.length));
  }
}

function waitKey(name: string, operation: string): string {
  return `${name}\n${operation}`;
}

/** Whether an operation takes something in: who waits in it starves. */
export function takes(operation: string): boolean {
  return /^(dequeue|take|read|get)/.test(operation);
}
