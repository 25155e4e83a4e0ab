/** The history of queue levels since the page was opened. */

import type { Feed } from "../feed/feed";
import { number } from "../feed/tables";

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
  private last = 0;

  constructor(private readonly feed: Feed) {}

  /** Record the latest levels from the kernel. */
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
  }

  of(name: string): readonly Sample[] {
    return this.samples.get(name) ?? [];
  }

  /** Recent rates in elements a second, in and out. */
  rates(name: string): { put: number; taken: number } {
    const all = this.of(name);
    const last = all[all.length - 1];
    const first = last && all.find((s) => s.time >= last.time - RATE_SECONDS);
    if (!last || !first || first === last) return { put: 0, taken: 0 };
    const passed = last.time - first.time;
    return { put: (last.put - first.put) / passed, taken: (last.taken - first.taken) / passed };
  }
}
